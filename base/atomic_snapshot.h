// A value that many threads read all the time and hardly anybody replaces.

#ifndef OARLOCK_BASE_ATOMIC_SNAPSHOT_H_
#define OARLOCK_BASE_ATOMIC_SNAPSHOT_H_

#include <atomic>
#include <memory>
#include <utility>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/synchronization/mutex.h"

namespace oarlock {

// Thread-safe. Reading costs one load and waits for nobody. A value that was
// replaced lives as long as this, so that those who have it may go on with it:
// for values that are replaced a few times in a process's life.
template <typename T>
class AtomicSnapshot {
 public:
  explicit AtomicSnapshot(T first) { Replace(std::move(first)); }

  AtomicSnapshot(const AtomicSnapshot&) = delete;
  AtomicSnapshot& operator=(const AtomicSnapshot&) = delete;

  // The newest value.
  const T& get() const { return *newest_.load(std::memory_order_acquire); }

  void Replace(T next) {
    auto value = std::make_unique<const T>(std::move(next));
    absl::MutexLock lock(&mutex_);
    newest_.store(value.get(), std::memory_order_release);
    values_.push_back(std::move(value));
  }

 private:
  std::atomic<const T*> newest_ = nullptr;
  absl::Mutex mutex_;
  std::vector<std::unique_ptr<const T>> values_ ABSL_GUARDED_BY(mutex_);
};

}  // namespace oarlock

#endif  // OARLOCK_BASE_ATOMIC_SNAPSHOT_H_
