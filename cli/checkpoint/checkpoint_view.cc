#include "cli/checkpoint/checkpoint_view.h"

#include <cstdint>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/time/time.h"
#include "cli/ctl/status_text.h"

namespace oarlock::cli {
namespace {

struct TableSum {
  uint64_t rows = 0;
  uint64_t digest = 0;
  // Of the servers' parts.
  size_t num_full = 0;
  size_t num_parts = 0;
};

TableSum SumOf(const v1::CheckpointManifest& manifest, uint32_t table) {
  TableSum sum;
  for (const v1::ServerPart& server : manifest.servers()) {
    for (const v1::TablePart& part : server.tables()) {
      if (part.table() != table) continue;
      sum.rows += part.rows();
      sum.digest += part.digest();
      sum.num_full += part.full();
      ++sum.num_parts;
    }
  }
  return sum;
}

std::string Written(const TableSum& sum) {
  if (sum.num_full == sum.num_parts) return "all";
  return sum.num_full == 0 ? "changes" : "some all, some changes";
}

uint64_t BytesOf(const v1::ServerPart& server) {
  uint64_t bytes = 0;
  for (const v1::FileSum& file : server.files()) bytes += file.bytes();
  return bytes;
}

// Examples in ranges with an end.
uint64_t ExamplesOf(const v1::PhaseCoverage& coverage) {
  uint64_t examples = 0;
  for (const v1::DataRange& range : coverage.covered()) {
    if (range.end() > range.begin()) examples += range.end() - range.begin();
  }
  return examples;
}

std::string TimeText(int64_t unix_ms) {
  return absl::FormatTime("%Y-%m-%d %H:%M:%S UTC",
                          absl::FromUnixMillis(unix_ms), absl::UTCTimeZone());
}

std::string Hex(uint64_t x) {
  return absl::StrCat(absl::Hex(x, absl::kZeroPad16));
}

}  // namespace

std::string FormatCheckpoint(const checkpoint::LoadedCheckpoint& checkpoint) {
  const v1::CheckpointManifest& manifest = checkpoint.manifest;
  std::string text = absl::StrFormat(
      "%s\ncut %d of job '%s', %s, format %d\n", checkpoint.folder,
      manifest.cut(), manifest.job_id(), TimeText(manifest.created_unix_ms()),
      manifest.format_version());
  absl::StrAppend(&text, "before it ",
                  manifest.previous_cut() == 0
                      ? "none"
                      : absl::StrCat("cut ", manifest.previous_cut()),
                  ", logical time ", manifest.logical_time(), ", ",
                  manifest.rounds(), " rounds, ", manifest.num_partitions(),
                  " partitions\n\n");
  std::vector<std::vector<std::string>> rows = {
      {"table", "name", "kind", "size", "written", "digest"}};
  for (const v1::TableConfig& table : manifest.tables()) {
    const TableSum sum = SumOf(manifest, table.id());
    rows.push_back({absl::StrCat(table.id()), table.name(),
                    table.has_sparse() ? "sparse" : "dense",
                    table.has_sparse()
                        ? absl::StrCat(sum.rows, " rows")
                        : absl::StrCat(table.dense().size(), " values"),
                    Written(sum), Hex(sum.digest)});
  }
  absl::StrAppend(&text, FormatColumns(rows), "\n");
  rows = {{"server", "files", "bytes", "written", "seconds"}};
  for (const v1::ServerPart& server : manifest.servers()) {
    rows.push_back({server.directory(), absl::StrCat(server.files_size()),
                    absl::StrCat(BytesOf(server)),
                    absl::StrCat(server.written_bytes()),
                    absl::StrFormat("%.2f", server.write_seconds())});
  }
  absl::StrAppend(&text, FormatColumns(rows));
  if (manifest.works_size() == 0) return text;
  rows = {{"phase", "examples", "ranges", "over"}};
  for (const v1::PhaseCoverage& coverage : manifest.works()) {
    rows.push_back({coverage.work(), absl::StrCat(ExamplesOf(coverage)),
                    absl::StrCat(coverage.covered_size()),
                    coverage.done() ? "yes" : "no"});
  }
  return absl::StrCat(text, "\n", FormatColumns(rows));
}

nlohmann::ordered_json CheckpointJson(
    const checkpoint::LoadedCheckpoint& checkpoint) {
  using Json = nlohmann::ordered_json;
  const v1::CheckpointManifest& manifest = checkpoint.manifest;
  Json tables = Json::array(), servers = Json::array(),
       coverages = Json::array();
  for (const v1::TableConfig& table : manifest.tables()) {
    const TableSum sum = SumOf(manifest, table.id());
    Json one = {{"id", table.id()},
                {"name", table.name()},
                {"kind", table.has_sparse() ? "sparse" : "dense"}};
    if (table.has_sparse()) {
      one["rows"] = sum.rows;
      one["dim"] = table.sparse().dim();
    } else {
      one["values"] = table.dense().size();
    }
    one["written"] = Written(sum);
    one["digest"] = Hex(sum.digest);
    tables.push_back(std::move(one));
  }
  for (const v1::ServerPart& server : manifest.servers()) {
    servers.push_back({{"directory", server.directory()},
                       {"files", server.files_size()},
                       {"bytes", BytesOf(server)},
                       {"written_bytes", server.written_bytes()},
                       {"write_seconds", server.write_seconds()}});
  }
  for (const v1::PhaseCoverage& coverage : manifest.works()) {
    coverages.push_back({{"phase_name", coverage.work()},
                         {"examples", ExamplesOf(coverage)},
                         {"ranges", coverage.covered_size()},
                         {"done", coverage.done()}});
  }
  return {{"folder", checkpoint.folder},
          {"cut", manifest.cut()},
          {"previous_cut", manifest.previous_cut()},
          {"job_id", manifest.job_id()},
          {"created_unix_ms", manifest.created_unix_ms()},
          {"format_version", manifest.format_version()},
          {"num_partitions", manifest.num_partitions()},
          {"logical_time", manifest.logical_time()},
          {"rounds", manifest.rounds()},
          {"next_generation", manifest.next_generation()},
          {"tables", std::move(tables)},
          {"servers", std::move(servers)},
          {"coverage", std::move(coverages)}};
}

}  // namespace oarlock::cli
