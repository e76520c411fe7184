// What has changed in a partition since its latest freeze, for the next delta,
// and what must be put aside first while a cut is saved (partition_cut.h).
//
// Both are one question: is this row being changed for the first time since the
// freeze? Its header has the version of its last push above all else, so it is
// one comparison with a number, on a line that a push reads anyway. No bitmap,
// no scan: an increment costs what changed.
//
// Of a table that has never been frozen nothing is tracked and the number is 0.

#ifndef OARLOCK_SPARSE_TABLE_CUT_CHANGE_TRACKER_H_
#define OARLOCK_SPARSE_TABLE_CUT_CHANGE_TRACKER_H_

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <utility>

#include "absl/types/span.h"
#include "base/check.h"
#include "base/types.h"
#include "sparse_table/cut/append_only_list.h"
#include "sparse_table/cut/cut_sink.h"
#include "sparse_table/cut/partition_cut.h"
#include "sparse_table/rows/packed_rows.h"
#include "sparse_table/rows/row_layout.h"
#include "sparse_table/rows/row_space.h"

namespace oarlock::sparse_table {

// Guarded by the partition's lock: shared for const functions. The functions
// named after events are called before or after them, as they say; before the
// first freeze they do nothing.
class ChangeTracker {
 public:
  // As many changes are remembered as there were rows at the freeze: beyond it
  // a delta would be no smaller than the table. And at least.
  static constexpr size_t kMinChanges = 4096;

  // Header words below it are of rows that have not changed since the freeze.
  // 0: nothing is tracked.
  uint64_t unchanged_below() const { return unchanged_below_; }

  // A push is about to change such a row.
  void BeforeFirstChange(RowRef ref, const std::byte* row) {
    if (cut_ != nullptr) cut_->BeforeLoss(ref, row);
    Remember(changes_.cells, ref);
  }
  void AfterCreation(RowRef ref) {
    if (unchanged_below_ != 0) Remember(changes_.cells, ref);
  }
  void BeforeEviction(RowRef ref, const std::byte* row) {
    if (unchanged_below_ == 0) return;
    if (cut_ != nullptr) cut_->BeforeLoss(ref, row);
    Remember(changes_.evicted, RowLayout::Header(row).key);
  }
  // Of rows that were on disk alone.
  void AfterColdEviction(absl::Span<const Key> keys) {
    if (unchanged_below_ == 0) return;
    for (const Key key : keys) Remember(changes_.evicted, key);
  }
  void BeforeDemotion(RowRef ref, const std::byte* row) {
    if (unchanged_below_ == 0) return;
    if (cut_ != nullptr) cut_->BeforeLoss(ref, row);
    const RowHeader& header = RowLayout::Header(row);
    // An equal copy on disk got there by a demotion that was told of.
    if (header.packed >= unchanged_below_ &&
        (header.packed & RowHeader::kClean) == 0) {
      Remember(changes_.demoted, header.key);
    }
  }
  // The row in this cell has this header from now on.
  void AfterPromotion(RowRef ref, const RowHeader& header) {
    if (unchanged_below_ != 0 && header.packed >= unchanged_below_) {
      Remember(changes_.cells, ref);
    }
  }

  // Begins a cut, of all rows when changes are not known. REQUIRES: there is
  // none.
  void Freeze(SaveKind kind, const PackedRows& packing, FrozenPartition frozen);
  // Null when there is none, or it has been saved.
  PartitionCut* cut() { return cut_.get(); }
  // The cut has been saved: what it kept is the caller's to free, without the
  // lock. REQUIRES: there is one.
  std::unique_ptr<PartitionCut> TakeSaved() {
    OARLOCK_CHECK(cut_ != nullptr);
    std::unique_ptr<PartitionCut> saved = std::move(cut_);
    if (forgotten()) unchanged_below_ = 0;
    return saved;
  }
  // Nothing is tracked any more, until the next freeze; what was kept for a cut
  // is the caller's to free.
  std::unique_ptr<PartitionCut> Stop() {
    Forget();
    unchanged_below_ = 0;
    return std::move(cut_);
  }

  size_t heap_bytes() const {
    return changes_.heap_bytes() + (cut_ == nullptr ? 0 : cut_->heap_bytes());
  }

 private:
  bool forgotten() const { return max_changes_ == 0; }
  template <typename Name>
  void Remember(AppendOnlyList<Name>& list, Name name) {
    if (num_changes_ >= max_changes_) [[unlikely]]
      MakeRoom();
    if (forgotten()) return;
    ++num_changes_;
    list.Append(name);
  }
  // Forgets what is remembered twice or, when that is less than half, all.
  void MakeRoom();
  // The next cut has to be full.
  void Forget();

  uint64_t unchanged_below_ = 0;
  std::unique_ptr<PartitionCut> cut_;
  // When there would be more changes they are forgotten, and the maximum is 0.
  size_t num_changes_ = 0;
  size_t max_changes_ = 0;
  RowChanges changes_;
};

}  // namespace oarlock::sparse_table

#endif  // OARLOCK_SPARSE_TABLE_CUT_CHANGE_TRACKER_H_
