#include "cli/status_text.h"

#include <algorithm>
#include <cctype>
#include <cmath>
#include <cstdint>

#include "absl/strings/ascii.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/str_join.h"

namespace oarlock {
namespace {

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
        {"pass", "done", "examples", "examples/s", "logloss", "AUC"}};
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
  return text;
}

std::string FormatServerStatus(const v1::ServerStatusResponse& status) {
  uint64_t bytes = 0;
  for (const v1::TableStatus& table : status.tables()) bytes += table.bytes();
  return absl::StrFormat(
      "server %d  generation %d  up %.1f s  tables %d, %s  held pushes %d\n",
      status.server_index(), status.server_generation(),
      status.uptime_seconds(), status.tables_size(), Mebibytes(bytes),
      status.held_pushes());
}

std::string FormatEviction(const v1::EvictResponse& response) {
  const uint64_t evicted = response.idle_rows() + response.low_score_rows() +
                           response.capacity_rows();
  return absl::StrFormat(
      "evicted %s rows: %s idle, %s of low score, %s beyond capacity; %s are "
      "left\n",
      Grouped(evicted), Grouped(response.idle_rows()),
      Grouped(response.low_score_rows()), Grouped(response.capacity_rows()),
      Grouped(response.rows()));
}

std::string FormatTables(const v1::ServerStatusResponse& status) {
  if (status.tables_size() == 0) return "no tables yet\n";
  std::vector<std::vector<std::string>> rows = {
      {"table", "name", "kind", "mode", "rows", "bytes/row", "memory",
       "memory/row", "rows pulled", "rows pushed", "admitted", "rejected", "evicted",
       "version"}};
  for (const v1::TableStatus& table : status.tables()) {
    const bool sparse = table.config().has_sparse();
    rows.push_back(
        {absl::StrCat(table.config().id()), table.config().name(),
         sparse
             ? absl::StrCat("sparse, dim ", table.config().sparse().dim())
             : absl::StrCat("dense, ", Grouped(table.config().dense().size())),
         absl::AsciiStrToLower(v1::UpdateMode_Name(table.config().mode())),
         Grouped(table.rows()), Grouped(table.row_bytes()),
         Mebibytes(table.bytes()),
         table.rows() == 0
             ? "-"
             : absl::StrFormat("%.1f B", static_cast<double>(table.bytes()) /
                                             static_cast<double>(table.rows())),
         Grouped(table.pulled_rows()), Grouped(table.pushed_rows()),
         sparse ? Grouped(table.admitted_rows()) : "-",
         sparse ? Grouped(table.rejected_keys()) : "-",
         sparse ? Grouped(table.evicted_rows()) : "-",
         Grouped(table.version())});
  }
  return FormatColumns(rows);
}

}  // namespace oarlock
