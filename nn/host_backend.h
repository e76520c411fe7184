// The memory functions of backends that compute in host memory.

#ifndef OARLOCK_NN_HOST_BACKEND_H_
#define OARLOCK_NN_HOST_BACKEND_H_

#include <algorithm>
#include <cstddef>
#include <cstdlib>
#include <cstring>

#include "base/check.h"
#include "nn/math_backend.h"

namespace oarlock::nn {

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
  void CopyOutLater(const void* from, size_t num_bytes, void* host) override {
    if (num_bytes > 0) std::memcpy(host, from, num_bytes);
  }
  void Finish() override {}
  bool uses_host_memory() const override { return true; }
  void Fill(size_t size, float value, float* y) override {
    std::fill_n(y, size, value);
  }
  void GatherRows(const CachedRows& cached, const float* missed, float* entries,
                  float* rows) override {
    for (size_t r = 0; r < cached.num_rows; ++r) {
      const uint32_t number = cached.miss_of_row[r];
      const uint32_t entry = cached.entry_of_row[r];
      float* const cached_row = entry == CachedRows::kNone
                                    ? nullptr
                                    : entries + entry * cached.row_dim;
      const float* const from = number == CachedRows::kNone
                                    ? cached_row
                                    : missed + number * cached.row_dim;
      std::copy_n(from, cached.row_dim, rows + r * cached.row_dim);
      if (cached_row != nullptr && from != cached_row) {
        std::copy_n(from, cached.row_dim, cached_row);
      }
    }
  }
};

}  // namespace oarlock::nn

#endif  // OARLOCK_NN_HOST_BACKEND_H_
