#include "cli/ctl/job_view.h"

#include <algorithm>
#include <limits>
#include <map>
#include <utility>

namespace oarlock::cli {
namespace {

// Finds the skew of loads that are added one by one.
class SkewMeter {
 public:
  void Add(uint64_t load, uint32_t server, uint32_t partition) {
    if (count_ == 0 || load > max_) {
      max_ = load;
      skew_.server = server;
      skew_.partition = partition;
    }
    sum_ += static_cast<double>(load);
    ++count_;
  }
  Skew Result() const {
    Skew skew = skew_;
    skew.max_over_mean = sum_ > 0 ? static_cast<double>(max_) *
                                        static_cast<double>(count_) / sum_
                                  : std::numeric_limits<double>::quiet_NaN();
    return skew;
  }

 private:
  Skew skew_;
  uint64_t max_ = 0;
  double sum_ = 0;
  uint64_t count_ = 0;
};

class LoadSkewMeter {
 public:
  // `Load` has rows, pulled_rows and pushed_rows.
  template <typename Load>
  void Add(const Load& load, uint32_t server, uint32_t partition = 0) {
    rows_.Add(load.rows(), server, partition);
    pulled_rows_.Add(load.pulled_rows(), server, partition);
    pushed_rows_.Add(load.pushed_rows(), server, partition);
  }
  LoadSkew Result() const {
    return {rows_.Result(), pulled_rows_.Result(), pushed_rows_.Result()};
  }

 private:
  SkewMeter rows_;
  SkewMeter pulled_rows_;
  SkewMeter pushed_rows_;
};

void AddLoad(const TableLoad& load, TableLoad* total) {
  total->rows += load.rows;
  total->bytes += load.bytes;
  total->pulled_rows += load.pulled_rows;
  total->admitted_rows += load.admitted_rows;
  total->rejected_keys += load.rejected_keys;
  total->evicted_rows += load.evicted_rows;
  total->memory_rows += load.memory_rows;
  total->cold_rows += load.cold_rows;
  total->demoted_rows += load.demoted_rows;
  total->promoted_rows += load.promoted_rows;
  total->disk_bytes += load.disk_bytes;
  total->disk_memory_bytes += load.disk_memory_bytes;
  total->pushed_rows += load.pushed_rows;
}

}  // namespace

std::string EndpointOf(const v1::ServerStatusResponse& server) {
  const auto index = static_cast<int64_t>(server.server_index());
  if (index >= server.server_endpoints_size()) return "";
  return server.server_endpoints(static_cast<int>(index));
}

std::vector<TableView> ViewTables(
    const std::vector<v1::ServerStatusResponse>& servers) {
  struct Work {
    TableView view;
    LoadSkewMeter across_servers;
    LoadSkewMeter across_partitions;
    bool partitions_left_out = false;
  };
  std::map<uint32_t, Work> tables;
  for (const v1::ServerStatusResponse& server : servers) {
    const uint32_t index = server.server_index();
    for (const v1::TableStatus& status : server.tables()) {
      Work& work = tables[status.config().id()];
      work.view.config = status.config();
      work.view.payload_bytes = status.payload_bytes();
      // Servers without a block of a dense table have none to measure.
      work.view.row_bytes = std::max(work.view.row_bytes, status.row_bytes());
      const TableLoad load = {status.rows(),
                              status.bytes(),
                              status.pulled_rows(),
                              status.pushed_rows(),
                              status.admitted_rows(),
                              status.rejected_keys(),
                              status.evicted_rows(),
                              status.memory_rows(),
                              status.cold_rows(),
                              status.demoted_rows(),
                              status.promoted_rows(),
                              status.disk_bytes(),
                              status.disk_memory_bytes()};
      work.view.shares.push_back({index, load, status.version()});
      AddLoad(load, &work.view.total);
      work.across_servers.Add(status, index);
      work.partitions_left_out |= status.partitions_left_out();
      for (const v1::PartitionStatus& partition : status.partitions()) {
        work.across_partitions.Add(partition, index, partition.partition());
      }
    }
  }
  std::vector<TableView> views;
  for (auto& [id, work] : tables) {
    work.view.across_servers = work.across_servers.Result();
    // Those of some servers alone would tell of another skew.
    if (!work.partitions_left_out) {
      work.view.across_partitions = work.across_partitions.Result();
    }
    views.push_back(std::move(work.view));
  }
  return views;
}

std::vector<HotKeysView> ViewHotKeys(
    const std::vector<v1::HotKeysResponse>& servers, size_t max_keys) {
  std::map<uint32_t, HotKeysView> tables;
  for (const v1::HotKeysResponse& server : servers) {
    for (const v1::TableHotKeys& table : server.tables()) {
      HotKeysView& view = tables[table.table()];
      view.table = table.table();
      view.name = table.name();
      view.pulled_rows += table.pulled_rows();
      view.pushed_rows += table.pushed_rows();
      view.pull_samples += table.pull_samples();
      view.push_samples += table.push_samples();
      for (const v1::HotKey& key : table.keys()) {
        view.keys.push_back({key.key(), key.partition(), server.server_index(),
                             key.pulls(), key.pushes()});
      }
    }
  }
  std::vector<HotKeysView> views;
  for (auto& [id, view] : tables) {
    std::stable_sort(view.keys.begin(), view.keys.end(),
                     [](const HotKeyView& a, const HotKeyView& b) {
                       return a.pulls.rows() + a.pushes.rows() >
                              b.pulls.rows() + b.pushes.rows();
                     });
    if (view.keys.size() > max_keys) view.keys.resize(max_keys);
    views.push_back(std::move(view));
  }
  return views;
}

}  // namespace oarlock::cli
