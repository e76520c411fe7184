// The newest cut that servers' responses have named.

#ifndef OARLOCK_CLIENT_NEWEST_CUT_H_
#define OARLOCK_CLIENT_NEWEST_CUT_H_

#include <atomic>
#include <cstdint>
#include <utility>

#include "absl/base/thread_annotations.h"
#include "absl/synchronization/mutex.h"
#include "client/parameter_client.h"

namespace oarlock::client {

// Thread-safe. Observe is called with every response, so a number that is known
// costs one comparison.
class NewestCut {
 public:
  // See ParameterClient::SetCutObserver.
  void SetObserver(ParameterClient::CutObserver observer) {
    absl::MutexLock lock(&mutex_);
    observer_ = std::move(observer);
  }

  // A response named `cut`.
  void Observe(uint64_t cut) {
    if (cut <= newest_.load(std::memory_order_relaxed)) return;
    absl::MutexLock lock(&mutex_);
    if (cut <= newest_.load(std::memory_order_relaxed)) return;
    newest_.store(cut, std::memory_order_relaxed);
    if (observer_) observer_(cut);
  }

  uint64_t value() const { return newest_.load(std::memory_order_relaxed); }

 private:
  std::atomic<uint64_t> newest_ = 0;
  // Held while the observer is called.
  absl::Mutex mutex_;
  ParameterClient::CutObserver observer_ ABSL_GUARDED_BY(mutex_);
};

}  // namespace oarlock::client

#endif  // OARLOCK_CLIENT_NEWEST_CUT_H_
