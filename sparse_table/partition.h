// One partition of a sparse table: its lock, index, rows and push windows.

#ifndef OARLOCK_SPARSE_TABLE_PARTITION_H_
#define OARLOCK_SPARSE_TABLE_PARTITION_H_

#include <algorithm>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/status/status.h"
#include "absl/types/span.h"
#include "base/push_stamp.h"
#include "base/types.h"
#include "sparse_table/push_window.h"
#include "sparse_table/reader_writer_lock.h"
#include "sparse_table/row_index.h"
#include "sparse_table/row_space.h"

namespace oarlock {

// The owner takes lock() around everything but PrefetchBucket and the
// counters: shared for const functions, exclusive for the others.
class alignas(64) Partition {
 public:
  // `rows` outlives the partition. `jitter_seed` differs between partitions.
  Partition(const RowSpace* rows, uint64_t jitter_seed)
      : rows_(rows), index_(rows, jitter_seed) {}

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

  // A new row for `key`, in the index, its header set; embedding, state and
  // statistics are the caller's to write. REQUIRES: room was reserved, `key`
  // has no row.
  std::byte* CreateRow(Key key, uint64_t mix)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(lock_);

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

  // The largest logical time of a push.
  uint32_t latest_touch() const ABSL_SHARED_LOCKS_REQUIRED(lock_) {
    return latest_touch_;
  }
  const PushWindows& windows() const ABSL_SHARED_LOCKS_REQUIRED(lock_) {
    return windows_;
  }
  size_t num_rows() const ABSL_SHARED_LOCKS_REQUIRED(lock_) {
    return index_.num_rows();
  }
  // Memory outside the arena.
  size_t heap_bytes() const ABSL_SHARED_LOCKS_REQUIRED(lock_);

  // Calls visit(const std::byte* row) in the order of creation.
  template <typename Visit>
  void ForEachRow(Visit visit) const ABSL_SHARED_LOCKS_REQUIRED(lock_) {
    for (size_t chunk = 0; chunk < chunks_.size() && chunk <= tail_; ++chunk) {
      const uint32_t num_slots =
          chunk < tail_ ? rows_->rows_per_chunk() : tail_slot_;
      for (uint32_t slot = 0; slot < num_slots; ++slot) {
        visit(static_cast<const std::byte*>(
            rows_->At(rows_->RefOf(chunks_[chunk], slot))));
      }
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
  absl::Status Reserve(size_t num_new) ABSL_EXCLUSIVE_LOCKS_REQUIRED(lock_);

  // What every group touches lies in the first cache line.
  mutable ReaderWriterLock lock_;
  mutable std::atomic<uint64_t> pulled_rows_{0};
  mutable std::atomic<uint64_t> pushed_rows_{0};
  const RowSpace* const rows_;
  RowIndex index_ ABSL_GUARDED_BY(lock_);
  uint64_t version_ ABSL_GUARDED_BY(lock_) = 0;
  uint32_t latest_touch_ ABSL_GUARDED_BY(lock_) = 0;

  // Chunks of the arena; the next row goes to slot tail_slot_ of chunk number
  // tail_, which is chunks_.size() when all are full.
  std::vector<uint32_t> chunks_ ABSL_GUARDED_BY(lock_);
  size_t tail_ ABSL_GUARDED_BY(lock_) = 0;
  uint32_t tail_slot_ ABSL_GUARDED_BY(lock_) = 0;

  PushWindows windows_ ABSL_GUARDED_BY(lock_);
};

}  // namespace oarlock

#endif  // OARLOCK_SPARSE_TABLE_PARTITION_H_
