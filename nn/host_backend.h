// What backends that compute in host memory share: the memory.

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
  void GatherRows(const KeptRows& kept, const float* fresh, float* slots,
                  float* rows) override {
    for (size_t r = 0; r < kept.num_rows; ++r) {
      const uint32_t number = kept.fresh_of_row[r];
      const uint32_t slot = kept.slot_of_row[r];
      float* const kept_row =
          slot == KeptRows::kNone ? nullptr : slots + slot * kept.row_dim;
      const float* const from =
          number == KeptRows::kNone ? kept_row : fresh + number * kept.row_dim;
      std::copy_n(from, kept.row_dim, rows + r * kept.row_dim);
      if (kept_row != nullptr && from != kept_row) {
        std::copy_n(from, kept.row_dim, kept_row);
      }
    }
  }
};

}  // namespace oarlock::nn

#endif  // OARLOCK_NN_HOST_BACKEND_H_
