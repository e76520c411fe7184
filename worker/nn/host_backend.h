// What backends that compute in host memory share: the memory.

#ifndef OARLOCK_WORKER_NN_HOST_BACKEND_H_
#define OARLOCK_WORKER_NN_HOST_BACKEND_H_

#include <algorithm>
#include <cstddef>
#include <cstdlib>
#include <cstring>

#include "base/check.h"
#include "worker/nn/math_backend.h"

namespace oarlock {

class HostBackend : public MathBackend {
 public:
  void* Allocate(size_t num_bytes) override {
    if (num_bytes == 0) return nullptr;
    constexpr size_t kAlignment = 64;
    const size_t rounded = (num_bytes + kAlignment - 1) / kAlignment;
    void* memory = std::aligned_alloc(kAlignment, rounded * kAlignment);
    OARLOCK_CHECK(memory != nullptr);
    return memory;
  }
  void Free(void* memory) override { std::free(memory); }
  void CopyIn(const void* host, size_t num_bytes, void* to) override {
    if (num_bytes > 0) std::memcpy(to, host, num_bytes);
  }
  void CopyOut(const void* from, size_t num_bytes, void* host) override {
    if (num_bytes > 0) std::memcpy(host, from, num_bytes);
  }
  bool uses_host_memory() const override { return true; }
  void Fill(size_t size, float value, float* y) override {
    std::fill_n(y, size, value);
  }
};

}  // namespace oarlock

#endif  // OARLOCK_WORKER_NN_HOST_BACKEND_H_
