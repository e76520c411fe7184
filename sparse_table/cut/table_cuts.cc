#include "sparse_table/cut/table_cuts.h"

#include <utility>

#include "base/check.h"
#include "sparse_table/cut/cut_saver.h"
#include "sparse_table/cut/partition_cut.h"
#include "sparse_table/rows/reader_writer_lock.h"

namespace oarlock::sparse_table {

void TableCuts::Freeze(SaveKind kind) {
  OARLOCK_CHECK(!frozen_);
  frozen_ = true;
  for (const std::unique_ptr<Partition>& partition : partitions_) {
    WriterGuard guard(partition->lock());
    FrozenPartition frozen = partition->Frozen();
    // Taken under the lock under which this partition's rows move between the
    // tiers, so that each row is either in memory or in the snapshot.
    if (partition->tiers().cold_rows > 0) {
      frozen.cold_rows = tier_->cold_rows().TakeSnapshot();
    }
    partition->tracker().Freeze(kind, packing_, std::move(frozen));
  }
}

absl::StatusOr<SavedPartition> TableCuts::SavePartition(PartitionIndex index,
                                                        CutSink& sink) {
  OARLOCK_CHECK(index.value() < partitions_.size());
  Partition& partition = *partitions_[index.value()];
  PartitionCut* cut;
  {
    WriterGuard guard(partition.lock());
    cut = partition.tracker().cut();
  }
  OARLOCK_CHECK(cut != nullptr);
  absl::StatusOr<SavedPartition> saved = CutSaver({.rows = rows_,
                                                   .packing = packing_,
                                                   .tier = tier_,
                                                   .index = index,
                                                   .partition = partition,
                                                   .cut = *cut},
                                                  sink)
                                             .Run();
  if (!saved.ok()) return saved;
  std::unique_ptr<PartitionCut> done;
  WriterGuard guard(partition.lock());
  done = partition.tracker().TakeSaved();
  return saved;
}

void TableCuts::Thaw(bool saved) {
  OARLOCK_CHECK(frozen_);
  frozen_ = false;
  for (const std::unique_ptr<Partition>& partition : partitions_) {
    std::unique_ptr<PartitionCut> given_up;
    WriterGuard guard(partition->lock());
    if (!saved || partition->tracker().cut() != nullptr) {
      given_up = partition->tracker().Stop();
    }
  }
}

}  // namespace oarlock::sparse_table
