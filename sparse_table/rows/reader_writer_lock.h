// The reader-writer lock of a partition: taken once per group of keys, held for
// a few microseconds.
//
// Own code because of four needs together: an uncontended acquisition is one
// atomic operation, on the line that holds the partition's other hot fields; a
// waiting push goes before later pulls (glibc's shared mutex lets a stream of
// pulls starve it); clang's analysis knows it; and ThreadSanitizer sees it
// (Debian's Abseil is not instrumented, so races are reported on whatever an
// absl::Mutex guards).

#ifndef OARLOCK_SPARSE_TABLE_ROWS_READER_WRITER_LOCK_H_
#define OARLOCK_SPARSE_TABLE_ROWS_READER_WRITER_LOCK_H_

#include <atomic>
#include <cstdint>

#include "absl/base/thread_annotations.h"

namespace oarlock::sparse_table {

// Not reentrant, in either mode. A thread that holds several takes them in one
// order (ascending partitions).
//
// Invariants of the state word:
// 1. kWriter excludes readers: it is set only when their count is 0 and no
//    reader enters while it is set.
// 2. kWriterWaits keeps new readers out; each writer that waits sees to it
//    being set, and whichever writer gets in clears it.
// 3. Who sleeps has set kParked before; whoever makes the lock free clears it
//    and wakes all.
class ABSL_LOCKABLE ReaderWriterLock {
 public:
  void ReaderLock() ABSL_SHARED_LOCK_FUNCTION() {
    uint32_t state = state_.load(std::memory_order_relaxed);
    if ((state & (kWriter | kWriterWaits)) != 0 ||
        !state_.compare_exchange_weak(state, state + 1,
                                      std::memory_order_acquire,
                                      std::memory_order_relaxed)) {
      ReaderLockSlow();
    }
  }

  void ReaderUnlock() ABSL_UNLOCK_FUNCTION() {
    const uint32_t before = state_.fetch_sub(1, std::memory_order_release);
    if ((before & kParked) != 0 && (before & kReaders) == 1) Wake();
  }

  void WriterLock() ABSL_EXCLUSIVE_LOCK_FUNCTION() {
    uint32_t free = 0;
    if (!state_.compare_exchange_weak(free, kWriter, std::memory_order_acquire,
                                      std::memory_order_relaxed)) {
      WriterLockSlow();
    }
  }

  void WriterUnlock() ABSL_UNLOCK_FUNCTION() {
    const uint32_t before =
        state_.fetch_and(~kWriter, std::memory_order_release);
    if ((before & kParked) != 0) Wake();
  }

 private:
  static constexpr uint32_t kWriter = uint32_t{1} << 31;
  static constexpr uint32_t kWriterWaits = uint32_t{1} << 30;
  static constexpr uint32_t kParked = uint32_t{1} << 29;
  static constexpr uint32_t kReaders = kParked - 1;
  // Rounds of spinning before a thread sleeps: a few microseconds, the time
  // for which a group is held.
  static constexpr int kSpins = 100;

  void ReaderLockSlow();
  void WriterLockSlow();
  // Sleeps until the state is no longer `state` with `extra` and kParked.
  void Park(uint32_t state, uint32_t extra);
  void Wake();

  std::atomic<uint32_t> state_{0};
};

class ABSL_SCOPED_LOCKABLE ReaderGuard {
 public:
  explicit ReaderGuard(ReaderWriterLock* lock) ABSL_SHARED_LOCK_FUNCTION(lock)
      : lock_(lock) {
    lock_->ReaderLock();
  }
  ~ReaderGuard() ABSL_UNLOCK_FUNCTION() { lock_->ReaderUnlock(); }
  ReaderGuard(const ReaderGuard&) = delete;
  ReaderGuard& operator=(const ReaderGuard&) = delete;

 private:
  ReaderWriterLock* const lock_;
};

class ABSL_SCOPED_LOCKABLE WriterGuard {
 public:
  explicit WriterGuard(ReaderWriterLock* lock)
      ABSL_EXCLUSIVE_LOCK_FUNCTION(lock)
      : lock_(lock) {
    lock_->WriterLock();
  }
  ~WriterGuard() ABSL_UNLOCK_FUNCTION() { lock_->WriterUnlock(); }
  WriterGuard(const WriterGuard&) = delete;
  WriterGuard& operator=(const WriterGuard&) = delete;

 private:
  ReaderWriterLock* const lock_;
};

}  // namespace oarlock::sparse_table

#endif  // OARLOCK_SPARSE_TABLE_ROWS_READER_WRITER_LOCK_H_
