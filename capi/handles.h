// Objects that the caller of the C interface knows by numbers.

#ifndef OARLOCK_CAPI_HANDLES_H_
#define OARLOCK_CAPI_HANDLES_H_

#include <atomic>
#include <cstdint>
#include <memory>
#include <utility>

#include "absl/base/thread_annotations.h"
#include "absl/container/flat_hash_map.h"
#include "absl/synchronization/mutex.h"

namespace oarlock::capi {

// No two handles of a process are the same, of whatever kind.
inline uint64_t NextHandle() {
  static std::atomic<uint64_t> last = 0;
  return ++last;
}

// Thread-safe. An object stays for as long as a call uses it, also when its
// handle is closed meanwhile.
template <typename Object>
class Handles {
 public:
  uint64_t Add(std::shared_ptr<Object> object) {
    const uint64_t handle = NextHandle();
    absl::MutexLock lock(&mutex_);
    objects_.emplace(handle, std::move(object));
    return handle;
  }
  // Null: closed, or never open.
  std::shared_ptr<Object> Find(uint64_t handle) const {
    absl::MutexLock lock(&mutex_);
    const auto found = objects_.find(handle);
    return found == objects_.end() ? nullptr : found->second;
  }
  // Closes it.
  std::shared_ptr<Object> Remove(uint64_t handle) {
    absl::MutexLock lock(&mutex_);
    const auto found = objects_.find(handle);
    if (found == objects_.end()) return nullptr;
    std::shared_ptr<Object> object = std::move(found->second);
    objects_.erase(found);
    return object;
  }

 private:
  mutable absl::Mutex mutex_;
  absl::flat_hash_map<uint64_t, std::shared_ptr<Object>> objects_
      ABSL_GUARDED_BY(mutex_);
};

}  // namespace oarlock::capi

#endif  // OARLOCK_CAPI_HANDLES_H_
