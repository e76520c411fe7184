#include "sparse_table/rows/reader_writer_lock.h"

namespace oarlock::sparse_table {
namespace {

void Pause() {
#if defined(__x86_64__)
  __builtin_ia32_pause();
#endif
}

}  // namespace

void ReaderWriterLock::ReaderLockSlow() {
  for (int spins = 0;; ++spins) {
    uint32_t state = state_.load(std::memory_order_relaxed);
    if ((state & (kWriter | kWriterWaits)) == 0) {
      if (state_.compare_exchange_weak(state, state + 1,
                                       std::memory_order_acquire,
                                       std::memory_order_relaxed)) {
        return;
      }
    } else if (spins < kSpins) {
      Pause();
    } else {
      Park(state, 0);
    }
  }
}

void ReaderWriterLock::WriterLockSlow() {
  for (int spins = 0;; ++spins) {
    uint32_t state = state_.load(std::memory_order_relaxed);
    if ((state & (kWriter | kReaders)) == 0) {
      if (state_.compare_exchange_weak(state, kWriter | (state & kParked),
                                       std::memory_order_acquire,
                                       std::memory_order_relaxed)) {
        return;
      }
    } else if (spins < kSpins) {
      if ((state & kWriterWaits) == 0) {
        state_.compare_exchange_weak(state, state | kWriterWaits,
                                     std::memory_order_relaxed);
      }
      Pause();
    } else {
      Park(state, kWriterWaits);
    }
  }
}

void ReaderWriterLock::Park(uint32_t state, uint32_t extra) {
  const uint32_t parked = state | extra | kParked;
  if (state != parked && !state_.compare_exchange_strong(
                             state, parked, std::memory_order_relaxed)) {
    return;
  }
  state_.wait(parked, std::memory_order_relaxed);
}

void ReaderWriterLock::Wake() {
  state_.fetch_and(~kParked, std::memory_order_relaxed);
  state_.notify_all();
}

}  // namespace oarlock::sparse_table
