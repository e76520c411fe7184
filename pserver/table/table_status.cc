// What a server tells of its tables: status, hot keys, changes.

#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_format.h"
#include "absl/strings/str_join.h"
#include "base/status_macros.h"
#include "pserver/table/table_registry.h"

namespace oarlock::pserver {
namespace {

// The partitions that this server owns.
void DescribePartitions(const sparse_table::SparseTable& table,
                        const cluster::PartitionMap& map, ServerIndex server,
                        v1::TableStatus* status) {
  const std::vector<sparse_table::SparsePartitionStats> stats =
      table.PartitionStats();
  for (uint32_t i = 0; i < stats.size(); ++i) {
    if (map.Owner(PartitionIndex(i)) != server) continue;
    v1::PartitionStatus* partition = status->add_partitions();
    partition->set_partition(i);
    partition->set_rows(stats[i].rows);
    partition->set_pulled_rows(stats[i].pulled_rows);
    partition->set_pushed_rows(stats[i].pushed_rows);
  }
}

void DescribeShare(const ShareEstimate& estimate, uint64_t num_keys,
                   v1::KeyTraffic* traffic) {
  const auto keys = static_cast<double>(num_keys);
  traffic->set_rows(estimate.share * keys);
  traffic->set_rows_error(estimate.error * keys);
}

v1::TableHotKeys DescribeHotKeysOf(const TableEntry& entry,
                                   const cluster::PartitionMap& map,
                                   size_t max_keys) {
  const HotKeys& hot_keys = *entry.hot_keys;
  v1::TableHotKeys table;
  table.set_table(entry.config.id());
  table.set_name(entry.config.name());
  table.set_pulled_rows(hot_keys.pulls().num_keys());
  table.set_pushed_rows(hot_keys.pushes().num_keys());
  table.set_pull_samples(hot_keys.pulls().num_samples());
  table.set_push_samples(hot_keys.pushes().num_samples());
  for (const HotKeys::HotKey& hot : hot_keys.Top(max_keys)) {
    v1::HotKey* key = table.add_keys();
    key->set_key(static_cast<uint64_t>(hot.key));
    key->set_partition(map.PartitionOf(hot.key).value());
    DescribeShare(hot.pulls, table.pulled_rows(), key->mutable_pulls());
    DescribeShare(hot.pushes, table.pushed_rows(), key->mutable_pushes());
  }
  return table;
}

}  // namespace

v1::TableStatus DescribeTable(const TableEntry& entry) {
  v1::TableStatus status;
  *status.mutable_config() = entry.config;
  status.set_version(entry.aggregator->Version());
  if (entry.sparse != nullptr) {
    const sparse_table::SparseTableStats stats = entry.sparse->Stats();
    status.set_rows(stats.rows);
    status.set_row_bytes(stats.row_bytes);
    status.set_bytes(stats.bytes);
    status.set_payload_bytes(stats.payload_bytes);
    status.set_pulled_rows(stats.pulled_rows);
    status.set_pushed_rows(stats.pushed_rows);
    status.set_admitted_rows(stats.admitted_rows);
    status.set_rejected_keys(stats.rejected_keys);
    status.set_evicted_rows(stats.evicted_rows);
    status.set_memory_rows(stats.rows - stats.cold_rows);
    status.set_cold_rows(stats.cold_rows);
    status.set_demoted_rows(stats.demoted_rows);
    status.set_promoted_rows(stats.promoted_rows);
    status.set_disk_bytes(stats.disk_bytes);
    status.set_disk_memory_bytes(stats.disk_memory_bytes);
  } else {
    const uint64_t blocks = entry.dense->num_owned_blocks();
    status.set_rows(blocks);
    status.set_row_bytes(blocks == 0 ? 0 : entry.dense->bytes() / blocks);
    status.set_bytes(entry.dense->bytes());
    status.set_pulled_rows(entry.block_traffic->pulled.load());
    status.set_pushed_rows(entry.block_traffic->pushed.load());
  }
  return status;
}

std::vector<v1::TableStatus> TableRegistry::Describe(
    size_t max_partitions) const {
  std::vector<v1::TableStatus> result;
  size_t left = max_partitions;
  for (const TableEntry* entry : Entries()) {
    result.push_back(DescribeTable(*entry));
    if (max_partitions == 0 || entry->sparse == nullptr) continue;
    const size_t owned = map_.NumOwned(server_);
    if (owned > left) {
      result.back().set_partitions_left_out(true);
      continue;
    }
    left -= owned;
    DescribePartitions(*entry->sparse, map_, server_, &result.back());
  }
  return result;
}

absl::StatusOr<std::vector<v1::TableHotKeys>> TableRegistry::DescribeHotKeys(
    const std::string& table_name, size_t max_keys) const {
  std::vector<v1::TableHotKeys> result;
  std::vector<std::string> names;
  for (const TableEntry* entry : Entries()) {
    if (entry->sparse == nullptr) continue;
    names.push_back(entry->config.name());
    if (!table_name.empty() && table_name != names.back()) continue;
    if ((result.size() + 1) * max_keys > kMaxHotKeysOfAll) {
      return absl::OutOfRangeError(absl::StrFormat(
          "%d keys of each table are more than the %d that a response has; "
          "ask for fewer, or for one table",
          max_keys, kMaxHotKeysOfAll));
    }
    result.push_back(DescribeHotKeysOf(*entry, map_, max_keys));
  }
  if (!table_name.empty() && result.empty()) {
    return absl::NotFoundError(absl::StrFormat(
        "no sparse table is named '%s'; there are: %s", table_name,
        names.empty() ? "none yet" : absl::StrJoin(names, ", ")));
  }
  return result;
}

absl::StatusOr<v1::ListChangesResponse> TableRegistry::ListChanges(
    const v1::ListChangesRequest& request, Generation generation) const {
  OARLOCK_ASSIGN_OR_RETURN(const TableEntry* const entry,
                           Find(TableId(request.table())));
  if (entry->changes == nullptr) {
    return absl::FailedPreconditionError(absl::StrFormat(
        "changes of table '%s' are not listed; legal is a sparse table whose "
        "mode is GEO",
        entry->config.name()));
  }
  if (request.max_keys() < 1 ||
      request.max_keys() > ChangeLog::kMaxEntriesPerResponse) {
    return absl::InvalidArgumentError(
        absl::StrFormat("max_keys is %d; legal are 1 to %d", request.max_keys(),
                        ChangeLog::kMaxEntriesPerResponse));
  }
  const ChangeLog& log = *entry->changes;
  ChangeLog::Changes changes;
  if (request.server_generation() == generation.value()) {
    changes = log.List(WorkerIndex(request.worker_index()), request.position(),
                       request.max_keys());
  } else {
    changes.position = log.position();
    changes.forgotten = true;
  }
  v1::ListChangesResponse response;
  response.set_server_generation(generation.value());
  response.set_position(changes.position);
  response.set_more(changes.more);
  response.set_forgotten(changes.forgotten);
  response.mutable_keys()->Reserve(static_cast<int>(changes.keys.size()));
  for (const Key key : changes.keys) {
    response.add_keys(static_cast<uint64_t>(key));
  }
  response.set_table_version(entry->aggregator->Version());
  return response;
}

}  // namespace oarlock::pserver
