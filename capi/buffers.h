// Memory that pushes are copied to, used again and again: fresh memory of this
// size costs a page fault for each 4 KiB.

#ifndef OARLOCK_CAPI_BUFFERS_H_
#define OARLOCK_CAPI_BUFFERS_H_

#include <cstddef>
#include <memory>
#include <utility>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/synchronization/mutex.h"

namespace oarlock::capi {

// Thread-safe. Buffers may outlive the pool.
class BufferPool {
 public:
  using Buffer = std::vector<float>;

  // Not initialized beyond what an earlier user wrote; of at least that size.
  // It comes back by itself.
  std::shared_ptr<Buffer> Take(size_t num_floats) {
    Buffer buffer;
    {
      absl::MutexLock lock(&state_->mutex);
      if (!state_->free.empty()) {
        buffer = std::move(state_->free.back());
        state_->free.pop_back();
      }
    }
    if (buffer.size() < num_floats) buffer.resize(num_floats);
    return std::shared_ptr<Buffer>(
        new Buffer(std::move(buffer)), [state = state_](Buffer* used) {
          {
            absl::MutexLock lock(&state->mutex);
            if (state->free.size() < kMaxFree) {
              state->free.push_back(std::move(*used));
            }
          }
          delete used;
        });
  }

 private:
  static constexpr size_t kMaxFree = 4;
  struct State {
    absl::Mutex mutex;
    std::vector<Buffer> free ABSL_GUARDED_BY(mutex);
  };

  const std::shared_ptr<State> state_ = std::make_shared<State>();
};

}  // namespace oarlock::capi

#endif  // OARLOCK_CAPI_BUFFERS_H_
