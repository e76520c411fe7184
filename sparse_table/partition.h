// One partition of a sparse table: its lock, index, rows, push windows and what
// admission remembers.
//
// Where a table has two tiers (sparse_table/tier.h) the partition also counts
// its cold rows: those on disk and not in memory. What a checkpoint needs to
// know of the rows' changes is told to its ChangeTracker.

#ifndef OARLOCK_SPARSE_TABLE_PARTITION_H_
#define OARLOCK_SPARSE_TABLE_PARTITION_H_

#include <algorithm>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <utility>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/status/status.h"
#include "absl/types/span.h"
#include "base/push_stamp.h"
#include "base/push_window.h"
#include "base/types.h"
#include "sparse_table/cut/change_tracker.h"
#include "sparse_table/cut/partition_cut.h"
#include "sparse_table/rows/reader_writer_lock.h"
#include "sparse_table/rows/row_cells.h"
#include "sparse_table/rows/row_index.h"
#include "sparse_table/rows/row_layout.h"
#include "sparse_table/rows/row_space.h"
#include "sparse_table/rules/count_sketch.h"

namespace oarlock::sparse_table {

// The owner takes lock() around everything but PrefetchBucket and the
// counters: shared for const functions, exclusive for the others.
class alignas(64) Partition {
 public:
  struct Tiers {
    size_t cold_rows = 0;
    // How often a row was moved.
    uint64_t demoted_rows = 0;
    uint64_t promoted_rows = 0;
    // As long as it stays the same, what the disk has said of a key without a
    // row in memory stays true.
    uint64_t disk_version = 0;
  };

  // `rows` outlives the partition. `jitter_seed` differs between partitions.
  // Rows begin at cell `first_cell` of the first chunk. `sketch`: for
  // admission, null when it needs none.
  Partition(const RowSpace* rows, uint64_t jitter_seed, uint32_t first_cell,
            std::unique_ptr<CountSketch> sketch)
      : rows_(rows),
        index_(rows, jitter_seed),
        cells_(rows, first_cell),
        sketch_(std::move(sketch)) {}

  ReaderWriterLock* lock() const ABSL_LOCK_RETURNED(lock_) { return &lock_; }

  // Lock-free.
  void PrefetchBucket(uint64_t mix) const ABSL_NO_THREAD_SAFETY_ANALYSIS {
    index_.Prefetch(mix);
  }

  // See RowIndex.
  RowRef FindCandidate(uint64_t mix) const ABSL_SHARED_LOCKS_REQUIRED(lock_) {
    return index_.FindCandidate(mix);
  }
  RowRef Find(Key key, uint64_t mix) const ABSL_SHARED_LOCKS_REQUIRED(lock_) {
    return index_.Find(key, mix);
  }

  // Makes room for rows for those of `keys` that have none. ResourceExhausted
  // when there is no memory for them; no row has changed then.
  absl::Status ReserveRows(absl::Span<const Key> keys)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(lock_);
  // The same for so many rows.
  absl::Status Reserve(size_t num_new) ABSL_EXCLUSIVE_LOCKS_REQUIRED(lock_);

  // A new row for `key`, in the index, its header set; embedding, state and
  // statistics are the caller's to write. REQUIRES: room was reserved, `key`
  // has no row.
  std::byte* CreateRow(Key key, uint64_t mix)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(lock_);

  // Takes a row out of the index and makes its cell free. REQUIRES: `row` is
  // the address of a row of this partition, `ref` its reference.
  void EvictRow(RowRef ref, std::byte* row)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(lock_);
  // The caller has deleted the cold rows of these keys.
  void ForgetColdRows(absl::Span<const Key> keys)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(lock_);

  // Moves a row between the tiers: from memory to where the caller has written
  // it, and back, as CreateRow with a header that was there before.
  void DemoteRow(RowRef ref, std::byte* row)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(lock_);
  std::byte* PromoteRow(const RowHeader& header, uint64_t mix)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(lock_);
  const Tiers& tiers() const ABSL_SHARED_LOCKS_REQUIRED(lock_) {
    return tiers_;
  }
  // Cells of rows in memory. The clock that finds rows to demote is their hand.
  const RowCells& cells() const ABSL_SHARED_LOCKS_REQUIRED(lock_) {
    return cells_;
  }
  RowRef AdvanceHand() ABSL_EXCLUSIVE_LOCKS_REQUIRED(lock_) {
    return cells_.AdvanceHand();
  }

  // Header words below it are of rows that BeforeFirstChange is to be told of.
  uint64_t unchanged_below() const ABSL_SHARED_LOCKS_REQUIRED(lock_) {
    return tracker_.unchanged_below();
  }
  // A push is about to change such a row. `candidate`: what FindCandidate gave.
  void BeforeFirstChange(Key key, uint64_t mix, RowRef candidate,
                         const std::byte* row)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(lock_) {
    const bool is_candidate = rows_->At(candidate) == row;
    tracker_.BeforeFirstChange(is_candidate ? candidate : Find(key, mix), row);
  }
  ChangeTracker& tracker() ABSL_SHARED_LOCKS_REQUIRED(lock_) {
    return tracker_;
  }
  // What a cut keeps of now, but for what lies on disk.
  FrozenPartition Frozen() ABSL_EXCLUSIVE_LOCKS_REQUIRED(lock_);
  // What a cut kept, rows excepted, of a partition that nobody uses yet.
  struct Restored {
    uint64_t version = 0;
    uint32_t latest_touch = 0;
    uint64_t created_rows = 0;
    uint64_t rejected_keys = 0;
    std::vector<PushWindow> windows;
  };
  void Restore(const Restored& restored) ABSL_EXCLUSIVE_LOCKS_REQUIRED(lock_);

  // Pushes applied so far.
  uint64_t version() const ABSL_SHARED_LOCKS_REQUIRED(lock_) {
    return version_;
  }
  // Whether every one of `stamps` has been applied; false for none.
  bool HasApplied(absl::Span<const PushStamp> stamps) const
      ABSL_SHARED_LOCKS_REQUIRED(lock_) {
    for (const PushStamp& stamp : stamps) {
      if (!windows_.Contains(stamp)) return false;
    }
    return !stamps.empty();
  }
  // Begins a push: returns its version, with which its rows are stamped.
  uint64_t BeginPush(uint32_t logical_time)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(lock_) {
    latest_touch_ = std::max(latest_touch_, logical_time);
    return ++version_;
  }
  // Remembers the push as applied.
  void EndPush(absl::Span<const PushStamp> stamps)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(lock_) {
    for (const PushStamp& stamp : stamps) windows_.Add(stamp);
  }
  // See SparseTable::ForgetWorker.
  void ForgetWorker(WorkerIndex worker, Generation last)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(lock_) {
    windows_.Forget(worker, last);
  }

  // The latest logical time that a push or an eviction has told.
  uint32_t latest_touch() const ABSL_SHARED_LOCKS_REQUIRED(lock_) {
    return latest_touch_;
  }
  void ObserveTime(uint32_t logical_time) ABSL_EXCLUSIVE_LOCKS_REQUIRED(lock_) {
    latest_touch_ = std::max(latest_touch_, logical_time);
  }
  // What admission remembers of keys without rows; null: nothing.
  CountSketch* sketch() const ABSL_EXCLUSIVE_LOCKS_REQUIRED(lock_) {
    return sketch_.get();
  }
  const PushWindows& windows() const ABSL_SHARED_LOCKS_REQUIRED(lock_) {
    return windows_;
  }
  size_t num_rows() const ABSL_SHARED_LOCKS_REQUIRED(lock_) {
    return index_.num_rows() + tiers_.cold_rows;
  }
  size_t memory_rows() const ABSL_SHARED_LOCKS_REQUIRED(lock_) {
    return index_.num_rows();
  }
  uint64_t created_rows() const ABSL_SHARED_LOCKS_REQUIRED(lock_) {
    return created_rows_;
  }
  uint64_t evicted_rows() const ABSL_SHARED_LOCKS_REQUIRED(lock_) {
    return created_rows_ - num_rows();
  }
  uint64_t rejected_keys() const ABSL_SHARED_LOCKS_REQUIRED(lock_) {
    return rejected_keys_;
  }
  void CountRejected(uint64_t num_keys) ABSL_EXCLUSIVE_LOCKS_REQUIRED(lock_) {
    rejected_keys_ += num_keys;
  }
  // Memory outside the arena.
  size_t heap_bytes() const ABSL_SHARED_LOCKS_REQUIRED(lock_);

  // Calls visit(const std::byte* row) in the order of cells: that of creation
  // while no row has been evicted.
  template <typename Visit>
  void ForEachRow(Visit visit) const ABSL_SHARED_LOCKS_REQUIRED(lock_) {
    RowCells::Cursor cursor;
    while (cells_.VisitRows(&cursor, rows_->rows_per_chunk(),
                            [&](RowRef, std::byte* row) {
                              visit(static_cast<const std::byte*>(row));
                            })) {
    }
  }

  // Statistics of traffic; any thread, no lock.
  void CountPulled(uint64_t num_rows) const {
    pulled_rows_.fetch_add(num_rows, std::memory_order_relaxed);
  }
  void CountPushed(uint64_t num_rows) const {
    pushed_rows_.fetch_add(num_rows, std::memory_order_relaxed);
  }
  uint64_t pulled_rows() const {
    return pulled_rows_.load(std::memory_order_relaxed);
  }
  uint64_t pushed_rows() const {
    return pushed_rows_.load(std::memory_order_relaxed);
  }

 private:
  RowRef PlaceRow(const RowHeader& header, uint64_t mix)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(lock_);
  void RemoveRow(RowRef ref, std::byte* row)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(lock_);

  // What every group touches lies in the first cache line.
  mutable ReaderWriterLock lock_;
  mutable std::atomic<uint64_t> pulled_rows_{0};
  mutable std::atomic<uint64_t> pushed_rows_{0};
  const RowSpace* const rows_;
  RowIndex index_ ABSL_GUARDED_BY(lock_);
  uint64_t version_ ABSL_GUARDED_BY(lock_) = 0;
  uint32_t latest_touch_ ABSL_GUARDED_BY(lock_) = 0;
  ChangeTracker tracker_ ABSL_GUARDED_BY(lock_);
  RowCells cells_ ABSL_GUARDED_BY(lock_);
  uint64_t created_rows_ ABSL_GUARDED_BY(lock_) = 0;
  uint64_t rejected_keys_ ABSL_GUARDED_BY(lock_) = 0;
  Tiers tiers_ ABSL_GUARDED_BY(lock_);
  const std::unique_ptr<CountSketch> sketch_ ABSL_PT_GUARDED_BY(lock_);
  PushWindows windows_ ABSL_GUARDED_BY(lock_);
};

}  // namespace oarlock::sparse_table

#endif  // OARLOCK_SPARSE_TABLE_PARTITION_H_
