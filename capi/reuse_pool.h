// Objects with large memory, used again and again: fresh memory costs a page
// fault for each 4 KiB.

#ifndef OARLOCK_CAPI_REUSE_POOL_H_
#define OARLOCK_CAPI_REUSE_POOL_H_

#include <cstddef>
#include <memory>
#include <utility>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/synchronization/mutex.h"

namespace oarlock::capi {

// Thread-safe. Objects may outlive the pool.
template <typename Object>
class ReusePool {
 public:
  // An object of some earlier use, or a new one. It comes back by itself,
  // unless `is_small` says that it is too large to be kept, or enough are.
  template <typename IsSmall>
  std::shared_ptr<Object> Take(IsSmall is_small) {
    std::unique_ptr<Object> object;
    {
      absl::MutexLock lock(&state_->mutex);
      if (!state_->free.empty()) {
        object = std::move(state_->free.back());
        state_->free.pop_back();
      }
    }
    if (object == nullptr) object = std::make_unique<Object>();
    return std::shared_ptr<Object>(object.release(),
                                   [state = state_, is_small](Object* used) {
                                     std::unique_ptr<Object> owned(used);
                                     if (!is_small(*used)) return;
                                     absl::MutexLock lock(&state->mutex);
                                     if (state->free.size() < kMaxFree) {
                                       state->free.push_back(std::move(owned));
                                     }
                                   });
  }

 private:
  static constexpr size_t kMaxFree = 4;
  struct State {
    absl::Mutex mutex;
    std::vector<std::unique_ptr<Object>> free ABSL_GUARDED_BY(mutex);
  };

  const std::shared_ptr<State> state_ = std::make_shared<State>();
};

}  // namespace oarlock::capi

#endif  // OARLOCK_CAPI_REUSE_POOL_H_
