#include "cli/ctl/status_text.h"

#include <algorithm>
#include <cctype>
#include <cmath>
#include <cstdint>

#include "absl/strings/ascii.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/str_join.h"

namespace oarlock::cli {
namespace {

// The newest ones that are listed.
constexpr int kShownEvaluations = 20;

// 1234567 as "1,234,567".
std::string Grouped(uint64_t number) {
  const std::string digits = absl::StrCat(number);
  std::string text;
  for (size_t i = 0; i < digits.size(); ++i) {
    if (i > 0 && (digits.size() - i) % 3 == 0) text += ',';
    text += digits[i];
  }
  return text;
}

std::string Fraction(double value, int digits) {
  return std::isnan(value) ? "-" : absl::StrFormat("%.*f", digits, value);
}

std::string Mebibytes(uint64_t bytes) {
  return absl::StrFormat("%.1f MiB", static_cast<double>(bytes) / (1 << 20));
}

bool LooksLikeNumber(const std::string& cell) {
  return !cell.empty() &&
         (std::isdigit(static_cast<unsigned char>(cell[0])) || cell == "-");
}

std::string LifeText(v1::WorkerState::Life life) {
  return absl::AsciiStrToLower(v1::WorkerState::Life_Name(life));
}

std::string StateText(const v1::JobStatusResponse& status) {
  if (status.failed()) return "failed";
  if (status.finished()) return "finished";
  return status.draining() ? "draining" : "running";
}

// Where the rows of a table with a memory budget are; else nothing.
std::string FormatTiers(const TableView& table) {
  const uint64_t budget = table.config.sparse().memory_budget_bytes();
  if (budget == 0) return "";
  std::vector<std::vector<std::string>> rows = {
      {"server", "rows in memory", "on disk", "disk", "memory for it",
       "moved to disk", "back"}};
  const auto add = [&](const std::string& server, const TableLoad& load) {
    rows.push_back({server, Grouped(load.memory_rows), Grouped(load.cold_rows),
                    Mebibytes(load.disk_bytes),
                    Mebibytes(load.disk_memory_bytes),
                    Grouped(load.demoted_rows), Grouped(load.promoted_rows)});
  };
  for (const TableView::Share& share : table.shares) {
    add(absl::StrCat(share.server), share.load);
  }
  if (table.shares.size() > 1) add("all", table.total);
  return absl::StrCat("memory budget ", Mebibytes(budget), "\n",
                      FormatColumns(rows));
}

}  // namespace

std::string FormatColumns(const std::vector<std::vector<std::string>>& rows) {
  std::vector<size_t> widths;
  std::vector<bool> numeric;
  for (size_t r = 0; r < rows.size(); ++r) {
    for (size_t c = 0; c < rows[r].size(); ++c) {
      if (c == widths.size()) {
        widths.push_back(0);
        numeric.push_back(rows.size() > 1);
      }
      widths[c] = std::max(widths[c], rows[r][c].size());
      if (r > 0 && !LooksLikeNumber(rows[r][c])) numeric[c] = false;
    }
  }
  std::string text;
  for (const std::vector<std::string>& row : rows) {
    std::string line;
    for (size_t c = 0; c < row.size(); ++c) {
      const std::string padding(widths[c] - row[c].size(), ' ');
      absl::StrAppend(&line, c == 0 ? "" : "  ", numeric[c] ? padding : "",
                      row[c], numeric[c] ? "" : padding);
    }
    absl::StripTrailingAsciiWhitespace(&line);
    absl::StrAppend(&text, line, "\n");
  }
  return text;
}

std::string FormatJobStatus(const v1::JobStatusResponse& status) {
  std::string text = absl::StrFormat(
      "job '%s'  %s, up %.1f s  servers %d of %d  workers registered %d of "
      "%d\n",
      status.job_id(), StateText(status), status.uptime_seconds(),
      status.num_servers_alive(), status.num_servers(), status.workers_size(),
      status.num_workers());
  if (!status.reason().empty()) {
    absl::StrAppend(&text, "  ", status.reason(), "\n");
  }
  if (status.training_stopped()) {
    absl::StrAppend(&text, "  training is stopped: ", status.stop_reason(),
                    "\n");
  }
  if (status.workers_size() > 0) {
    std::vector<std::vector<std::string>> rows = {
        {"worker", "state", "generation", "host", "process", "reason"}};
    for (const v1::WorkerState& worker : status.workers()) {
      rows.push_back({absl::StrCat(worker.worker_index()),
                      LifeText(worker.life()),
                      absl::StrCat(worker.worker_generation()), worker.host(),
                      absl::StrCat(worker.pid()), worker.reason()});
    }
    absl::StrAppend(&text, "\n", FormatColumns(rows));
  }
  if (status.phases_size() > 0) {
    std::vector<std::vector<std::string>> rows = {
        {"phase", "done", "examples", "examples/s", "logloss", "AUC"}};
    for (const v1::PhaseStatus& phase : status.phases()) {
      const auto examples = static_cast<double>(phase.progress().examples());
      rows.push_back(
          {absl::StrCat(phase.progress().phase(), "/",
                        phase.progress().epoch()),
           phase.num_examples() == 0
               ? "-"
               : absl::StrFormat("%.0f %%",
                                 100 * examples /
                                     static_cast<double>(phase.num_examples())),
           Grouped(phase.progress().examples()),
           phase.seconds() > 0
               ? Grouped(static_cast<uint64_t>(examples / phase.seconds()))
               : "-",
           Fraction(phase.logloss(), 4), Fraction(phase.auc(), 4)});
    }
    absl::StrAppend(&text, "\n", FormatColumns(rows));
  }
  if (status.evaluations_size() > 0) {
    std::vector<std::vector<std::string>> rows = {{"evaluation", "file",
                                                   "after examples", "examples",
                                                   "logloss", "AUC", ""}};
    const int shown = std::min(status.evaluations_size(), kShownEvaluations);
    for (int i = status.evaluations_size() - shown;
         i < status.evaluations_size(); ++i) {
      const v1::Evaluation& evaluation = status.evaluations(i);
      rows.push_back({evaluation.work(), evaluation.file(),
                      Grouped(evaluation.trained_examples()),
                      Grouped(evaluation.examples()),
                      Fraction(evaluation.logloss(), 4),
                      Fraction(evaluation.auc(), 4),
                      evaluation.best() ? "best so far" : ""});
    }
    absl::StrAppend(&text, "\n", FormatColumns(rows));
  }
  return text;
}

std::string FormatServers(
    const std::vector<v1::ServerStatusResponse>& servers) {
  std::vector<std::vector<std::string>> rows = {
      {"server", "endpoint", "generation", "up", "tables", "rows",
       "of them on disk", "memory", "rows pulled", "rows pushed",
       "held pushes"}};
  for (const v1::ServerStatusResponse& server : servers) {
    TableLoad load;
    for (const v1::TableStatus& table : server.tables()) {
      load.bytes += table.bytes();
      if (!table.config().has_sparse()) continue;
      load.rows += table.rows();
      load.cold_rows += table.cold_rows();
      load.pulled_rows += table.pulled_rows();
      load.pushed_rows += table.pushed_rows();
    }
    rows.push_back({absl::StrCat(server.server_index()), EndpointOf(server),
                    absl::StrCat(server.server_generation()),
                    absl::StrFormat("%.1f s", server.uptime_seconds()),
                    absl::StrCat(server.tables_size()), Grouped(load.rows),
                    Grouped(load.cold_rows), Mebibytes(load.bytes),
                    Grouped(load.pulled_rows), Grouped(load.pushed_rows),
                    Grouped(server.held_pushes())});
  }
  return FormatColumns(rows);
}

std::string FormatSilent(const std::vector<SilentServer>& silent) {
  std::string text;
  for (const SilentServer& server : silent) {
    absl::StrAppend(&text, "server ", server.server, " at ", server.endpoint,
                    " is left out, it did not answer: ", server.why, "\n");
  }
  return text;
}

std::string FormatTables(const std::vector<TableView>& tables) {
  if (tables.empty()) return "no tables yet\n";
  std::string text;
  for (const TableView& table : tables) {
    const bool sparse = table.config.has_sparse();
    absl::StrAppend(
        &text, text.empty() ? "" : "\n",
        absl::StrFormat(
            "table %d '%s'  %s, %s, %s bytes a %s", table.config.id(),
            table.config.name(),
            sparse
                ? absl::StrCat("sparse, dim ", table.config.sparse().dim())
                : absl::StrCat("dense, ", Grouped(table.config.dense().size())),
            absl::AsciiStrToLower(v1::UpdateMode_Name(table.config.mode())),
            Grouped(table.row_bytes), sparse ? "row" : "block"),
        sparse ? absl::StrCat(", ", table.payload_bytes, " of them payload\n")
               : "\n");
    const std::string things = sparse ? "rows" : "blocks";
    std::vector<std::vector<std::string>> rows = {
        {"server", things, "memory", "memory/key", "of payload",
         things + " pulled", things + " pushed"}};
    if (sparse) {
      rows[0].insert(rows[0].end(), {"admitted", "rejected", "evicted"});
    } else {
      rows[0][3] = "memory/block";
    }
    rows[0].push_back("version");
    const auto add = [&](const std::string& server, const TableLoad& load,
                         const std::string& version) {
      const double per_key =
          static_cast<double>(load.bytes) / static_cast<double>(load.rows);
      rows.push_back(
          {server, Grouped(load.rows), Mebibytes(load.bytes),
           load.rows == 0 ? "-" : absl::StrFormat("%.1f B", per_key),
           load.rows == 0 || table.payload_bytes == 0
               ? "-"
               : absl::StrFormat("%.2f x", per_key / static_cast<double>(
                                                         table.payload_bytes)),
           Grouped(load.pulled_rows), Grouped(load.pushed_rows)});
      if (sparse) {
        rows.back().insert(rows.back().end(), {Grouped(load.admitted_rows),
                                               Grouped(load.rejected_keys),
                                               Grouped(load.evicted_rows)});
      }
      rows.back().push_back(version);
    };
    for (const TableView::Share& share : table.shares) {
      add(absl::StrCat(share.server), share.load, Grouped(share.version));
    }
    if (table.shares.size() > 1) add("all", table.total, "-");
    absl::StrAppend(&text, FormatColumns(rows), FormatTiers(table));
  }
  return text;
}

std::string FormatSkew(const std::vector<TableView>& tables) {
  std::vector<std::vector<std::string>> rows = {
      {"largest over mean", "across servers", "", "across partitions", ""}};
  const auto ratio = [](const Skew& skew) {
    return std::isnan(skew.max_over_mean)
               ? "-"
               : absl::StrFormat("%.2f", skew.max_over_mean);
  };
  for (const TableView& table : tables) {
    if (!table.config.has_sparse()) continue;
    const LoadSkew& servers = table.across_servers;
    const LoadSkew& partitions = table.across_partitions;
    const auto add = [&](const char* what, const Skew& server,
                         const Skew& partition) {
      rows.push_back(
          {absl::StrCat(table.config.name(), " ", what), ratio(server),
           std::isnan(server.max_over_mean)
               ? ""
               : absl::StrCat("server ", server.server),
           ratio(partition),
           std::isnan(partition.max_over_mean)
               ? ""
               : absl::StrFormat("partition %d, server %d", partition.partition,
                                 partition.server)});
    };
    add("rows", servers.rows, partitions.rows);
    add("rows pulled", servers.pulled_rows, partitions.pulled_rows);
    add("rows pushed", servers.pushed_rows, partitions.pushed_rows);
  }
  return rows.size() == 1 ? "" : FormatColumns(rows);
}

std::string FormatEviction(const std::vector<v1::EvictResponse>& servers) {
  uint64_t idle = 0, low_score = 0, capacity = 0, left = 0;
  for (const v1::EvictResponse& server : servers) {
    idle += server.idle_rows();
    low_score += server.low_score_rows();
    capacity += server.capacity_rows();
    left += server.rows();
  }
  return absl::StrFormat(
      "evicted %s rows: %s idle, %s of low score, %s beyond capacity; %s are "
      "left\n",
      Grouped(idle + low_score + capacity), Grouped(idle), Grouped(low_score),
      Grouped(capacity), Grouped(left));
}

std::string FormatHotKeys(const std::vector<HotKeysView>& tables) {
  if (tables.empty()) return "no sparse tables yet\n";
  const auto percent = [](double rows, uint64_t total) {
    return total == 0 ? "-"
                      : absl::StrFormat(
                            "%.4f %%", 100 * rows / static_cast<double>(total));
  };
  std::string text;
  for (const HotKeysView& table : tables) {
    absl::StrAppend(&text, text.empty() ? "" : "\n", "table ", table.table,
                    " '", table.name, "'  keys in pulls ",
                    Grouped(table.pulled_rows), ", ",
                    Grouped(table.pull_samples), " looked at; in pushes ",
                    Grouped(table.pushed_rows), ", ",
                    Grouped(table.push_samples), " looked at\n");
    std::vector<std::vector<std::string>> rows = {
        {"key", "of pulls", "+/-", "of pushes", "+/-", "partition", "server"}};
    for (const HotKeyView& key : table.keys) {
      rows.push_back({absl::StrCat(key.key),
                      percent(key.pulls.rows(), table.pulled_rows),
                      percent(key.pulls.rows_error(), table.pulled_rows),
                      percent(key.pushes.rows(), table.pushed_rows),
                      percent(key.pushes.rows_error(), table.pushed_rows),
                      absl::StrCat(key.partition), absl::StrCat(key.server)});
    }
    absl::StrAppend(&text, FormatColumns(rows));
  }
  return text;
}

}  // namespace oarlock::cli
