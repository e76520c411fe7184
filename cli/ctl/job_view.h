// What a job's servers tell of themselves, put together: tables over all
// servers, how evenly the load lies, the hottest keys of all.

#ifndef OARLOCK_CLI_CTL_JOB_VIEW_H_
#define OARLOCK_CLI_CTL_JOB_VIEW_H_

#include <cstdint>
#include <string>
#include <vector>

#include "proto/v1/server_admin_tables.pb.h"
#include "proto/v1/table.pb.h"

namespace oarlock::cli {

// A server that was asked in vain.
struct SilentServer {
  uint32_t server = 0;
  std::string endpoint;
  // One sentence.
  std::string why;
};

struct TableLoad {
  uint64_t rows = 0;
  uint64_t bytes = 0;
  uint64_t pulled_rows = 0;
  uint64_t pushed_rows = 0;
  // Of sparse tables: rows created, keys of pushes that were not admitted,
  // rows evicted.
  uint64_t admitted_rows = 0;
  uint64_t rejected_keys = 0;
  uint64_t evicted_rows = 0;
  // Of sparse tables with a memory budget: rows in memory and on disk alone,
  // how often a row was moved to disk and back, what those on disk take there
  // and in memory beyond `bytes`.
  uint64_t memory_rows = 0;
  uint64_t cold_rows = 0;
  uint64_t demoted_rows = 0;
  uint64_t promoted_rows = 0;
  uint64_t disk_bytes = 0;
  uint64_t disk_memory_bytes = 0;
};

// The largest of some loads over their mean: 1 when all are equal, their
// number when one has everything, NaN when there is no load.
struct Skew {
  double max_over_mean = 0;
  // Of the largest; the first where several are.
  uint32_t server = 0;
  uint32_t partition = 0;  // for a skew across partitions
};

// The same for each kind of load.
struct LoadSkew {
  Skew rows;
  Skew pulled_rows;
  Skew pushed_rows;
};

// A table over all servers that answered.
struct TableView {
  v1::TableConfig config;
  uint64_t row_bytes = 0;
  uint64_t payload_bytes = 0;
  struct Share {
    uint32_t server = 0;
    TableLoad load;
    uint64_t version = 0;
  };
  // Ascending by server.
  std::vector<Share> shares;
  TableLoad total;
  // For a dense table, loads are of blocks.
  LoadSkew across_servers;
  // Of a sparse table whose partitions were told, else NaN.
  LoadSkew across_partitions;
};

// "host:port" of the server that answered; empty when it did not say.
std::string EndpointOf(const v1::ServerStatusResponse& server);

// Ascending by table id. `servers` ascending by index.
std::vector<TableView> ViewTables(
    const std::vector<v1::ServerStatusResponse>& servers);

struct HotKeyView {
  uint64_t key = 0;
  uint32_t partition = 0;
  uint32_t server = 0;
  // Estimates of how often it was named, see v1::KeyTraffic.
  v1::KeyTraffic pulls;
  v1::KeyTraffic pushes;
};

// The hottest keys of a table over all servers that answered.
struct HotKeysView {
  uint32_t table = 0;
  std::string name;
  uint64_t pulled_rows = 0;
  uint64_t pushed_rows = 0;
  uint64_t pull_samples = 0;
  uint64_t push_samples = 0;
  // By falling pulls and pushes.
  std::vector<HotKeyView> keys;
};

// Ascending by table id, at most `max_keys` keys of each.
std::vector<HotKeysView> ViewHotKeys(
    const std::vector<v1::HotKeysResponse>& servers, size_t max_keys);

}  // namespace oarlock::cli

#endif  // OARLOCK_CLI_CTL_JOB_VIEW_H_
