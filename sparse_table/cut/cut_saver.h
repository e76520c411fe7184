// Saving one partition of a cut.

#ifndef OARLOCK_SPARSE_TABLE_CUT_CUT_SAVER_H_
#define OARLOCK_SPARSE_TABLE_CUT_CUT_SAVER_H_

#include <cstddef>
#include <cstdint>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/container/flat_hash_map.h"
#include "absl/container/flat_hash_set.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "base/types.h"
#include "sparse_table/cut/cut_sink.h"
#include "sparse_table/cut/partition_cut.h"
#include "sparse_table/partition.h"
#include "sparse_table/rows/packed_rows.h"
#include "sparse_table/rows/reader_writer_lock.h"
#include "sparse_table/rows/row_space.h"
#include "sparse_table/tier.h"

namespace oarlock::sparse_table {

// A frozen partition and what lies around it.
struct CutScope {
  const RowSpace& rows;
  const PackedRows& packing;
  // Null without a memory budget.
  const Tier* tier = nullptr;
  PartitionIndex index;
  Partition& partition;
  PartitionCut& cut;
};

// See TableCuts::SavePartition. One thread, one use.
//
// The cut's row of a cell is its pre-image, else what the cell holds if that is
// of the cut. With two tiers a row may have moved, to disk and back into
// another cell, and may be met several times, always as it was at the freeze:
// it is saved the first time. Memory comes before the snapshot of the disk, so
// what is there of a row that was in memory, an older copy, is skipped.
class CutSaver {
 public:
  CutSaver(const CutScope& scope, CutSink& sink);

  absl::StatusOr<SavedPartition> Run();

 private:
  absl::Status SaveCells();
  absl::Status SaveColdRows();
  absl::Status SaveErased();
  absl::Status SaveChangedCells();
  absl::Status SaveDemoted();
  v1::SparsePartitionState State() const;

  // Calls copy() with the partition's lock held, shared, and all pre-images
  // known.
  template <typename Copy>
  void Hold(Copy copy);
  // Brings the cut's row of a cell, if it has one, into the record. REQUIRES:
  // there is room.
  void CopyCell(RowRef ref) ABSL_SHARED_LOCKS_REQUIRED(partition_.lock());
  void PackRow(const std::byte* row);
  // Whether this row has not been met before.
  bool IsFirst(Key key) { return tier_ == nullptr || met_.insert(key).second; }
  // Rows for which the record has room.
  size_t room() const { return record_rows_ - num_rows_; }
  std::byte* End() { return record_.data() + num_rows_ * packing_.row_bytes(); }
  absl::Status FlushIfFull() {
    return room() == 0 ? Flush() : absl::OkStatus();
  }
  absl::Status Flush();

  const RowSpace& rows_;
  const PackedRows& packing_;
  const Tier* const tier_;
  const PartitionIndex index_;
  Partition& partition_;
  PartitionCut& cut_;
  CutSink& sink_;

  // Number of the first image of each cell, of the first so many images.
  absl::flat_hash_map<RowRef, size_t> image_of_;
  size_t num_noted_ = 0;
  // With two tiers: keys of the rows that were saved from memory.
  absl::flat_hash_set<Key> met_;

  // A record of so many rows at most, num_rows_ now.
  const size_t record_rows_;
  std::vector<std::byte> record_;
  size_t num_rows_ = 0;

  SavedPartition saved_;
  uint64_t digest_ = 0;
};

}  // namespace oarlock::sparse_table

#endif  // OARLOCK_SPARSE_TABLE_CUT_CUT_SAVER_H_
