#include "sparse_table/inspection.h"

#include <optional>

#include "base/mix.h"
#include "base/status_macros.h"
#include "sparse_table/rows/reader_writer_lock.h"
#include "sparse_table/rows/row_layout.h"
#include "sparse_table/rules/eviction.h"

namespace oarlock::sparse_table {

SparseTable::RowView Inspection::ViewOf(const std::byte* row,
                                        uint32_t latest_touch) const {
  const RowLayout& layout = rows_.layout();
  const RowHeader& header = RowLayout::Header(row);
  RowView view;
  view.key = header.key;
  view.version = header.version();
  view.last_touch = WidenTouch(header.low_touch(), latest_touch);
  if (layout.has_statistics()) {
    view.show = layout.Statistics(row)[0];
    view.click = layout.Statistics(row)[1];
  }
  view.extended = header.extended();
  view.embedding = {layout.Embedding(row), layout.dim()};
  view.state = {layout.State(row), layout.state_size()};
  return view;
}

absl::Status Inspection::ForEachRow(
    const std::function<void(PartitionIndex, const RowView&)>& visit) const {
  for (uint32_t i = 0; i < partitions_.size(); ++i) {
    const PartitionIndex index(i);
    const Partition& partition = *partitions_[i];
    ReaderGuard guard(partition.lock());
    const uint32_t latest_touch = partition.latest_touch();
    partition.ForEachRow(
        [&](const std::byte* row) { visit(index, ViewOf(row, latest_touch)); });
    if (partition.tiers().cold_rows == 0) continue;
    std::optional<Key> next = Key{0};
    while (next.has_value()) {
      OARLOCK_ASSIGN_OR_RETURN(
          next,
          tier_->VisitDisk(tier_->cold_rows(), index, *next, kCellsPerHold,
                           [&](const std::byte* row)
                               ABSL_SHARED_LOCKS_REQUIRED(partition.lock()) {
                                 const Key key = RowLayout::Header(row).key;
                                 // What is in memory has been visited.
                                 if (partition.Find(key, Mix(key)) != kNoRow)
                                   return;
                                 visit(index, ViewOf(row, latest_touch));
                               }));
    }
  }
  return absl::OkStatus();
}

SparseTableStats Inspection::Stats() const {
  const RowLayout& layout = rows_.layout();
  SparseTableStats stats;
  stats.row_bytes = layout.row_bytes();
  stats.payload_bytes = (layout.dim() + layout.state_size()) * sizeof(float);
  stats.bytes = rows_.arena().bytes_used();
  for (const std::unique_ptr<Partition>& partition : partitions_) {
    ReaderGuard guard(partition->lock());
    stats.rows += partition->num_rows();
    stats.bytes += partition->heap_bytes();
    stats.pulled_rows += partition->pulled_rows();
    stats.pushed_rows += partition->pushed_rows();
    stats.admitted_rows += partition->created_rows();
    stats.rejected_keys += partition->rejected_keys();
    stats.evicted_rows += partition->evicted_rows();
    stats.cold_rows += partition->tiers().cold_rows;
    stats.demoted_rows += partition->tiers().demoted_rows;
    stats.promoted_rows += partition->tiers().promoted_rows;
  }
  if (tier_ != nullptr) {
    stats.disk_bytes = tier_->cold_rows().disk_bytes();
    stats.disk_memory_bytes = tier_->cold_rows().memory_bytes();
  }
  return stats;
}

std::vector<SparsePartitionStats> Inspection::PartitionStats() const {
  std::vector<SparsePartitionStats> stats;
  stats.reserve(partitions_.size());
  for (const std::unique_ptr<Partition>& partition : partitions_) {
    ReaderGuard guard(partition->lock());
    stats.push_back({partition->num_rows(), partition->pulled_rows(),
                     partition->pushed_rows()});
  }
  return stats;
}

}  // namespace oarlock::sparse_table
