#include "bench/common/raw_rows.h"

#include <sys/mman.h>

#include <algorithm>
#include <cmath>
#include <cstdlib>
#include <cstring>

#include "bench/common/workload.h"

#if defined(__x86_64__)
#include <immintrin.h>
#endif

namespace oarlock_bench {
namespace {

constexpr size_t kHugePage = size_t{2} << 20;
constexpr float kEpsilon = 1e-10f;

void PrefetchRow(const float* row, bool with_state) {
  __builtin_prefetch(row);
  if (with_state) __builtin_prefetch(row + kDim);
}

void PortableStep(float* w, float* state, const float* gradient) {
  for (size_t d = 0; d < kDim; ++d) {
    state[d] += gradient[d] * gradient[d];
    w[d] -= kLearningRate * gradient[d] / std::sqrt(state[d] + kEpsilon);
  }
}

// The first rows of a batch, which nobody asked for ahead.
template <typename Id>
void PrefetchFirst(const float* table, const Id* rows, size_t num_rows,
                   bool with_state) {
  for (size_t i = 0; i < std::min(num_rows, kPrefetchRows); ++i) {
    PrefetchRow(table + rows[i] * RawRows::kFloats, with_state);
  }
}

template <typename Id>
void PortableGather(const float* table, const Id* rows, size_t num_rows,
                    float* out) {
  PrefetchFirst(table, rows, num_rows, false);
  for (size_t i = 0; i < num_rows; ++i) {
    const size_t ahead = std::min(i + kPrefetchRows, num_rows - 1);
    PrefetchRow(table + rows[ahead] * RawRows::kFloats, false);
    std::memcpy(out + i * kDim, table + rows[i] * RawRows::kFloats,
                kDim * sizeof(float));
  }
}

template <typename Id>
void PortableAdagrad(float* table, const Id* rows, size_t num_rows,
                     const float* gradients) {
  PrefetchFirst(table, rows, num_rows, true);
  for (size_t i = 0; i < num_rows; ++i) {
    const size_t ahead = std::min(i + kPrefetchRows, num_rows - 1);
    PrefetchRow(table + rows[ahead] * RawRows::kFloats, true);
    float* const row = table + rows[i] * RawRows::kFloats;
    PortableStep(row, row + kDim, gradients + i * kDim);
  }
}

#if defined(__x86_64__)

__attribute__((target("avx512f"))) inline void WideStep(float* w, float* state,
                                                        const float* gradient) {
  const __m512 g = _mm512_loadu_ps(gradient);
  const __m512 sum = _mm512_fmadd_ps(g, g, _mm512_load_ps(state));
  _mm512_store_ps(state, sum);
  // Never 0, or the row of a zero gradient would become NaN.
  const __m512 positive = _mm512_add_ps(sum, _mm512_set1_ps(kEpsilon));
  // Named as an unmasked intrinsic g++ 12 warns of its own header.
  const __m512 root = _mm512_maskz_rsqrt14_ps(0xffff, positive);
  const __m512 step = _mm512_mul_ps(_mm512_set1_ps(-kLearningRate), g);
  _mm512_store_ps(w, _mm512_fmadd_ps(step, root, _mm512_load_ps(w)));
}

template <typename Id>
__attribute__((target("avx512f"))) void WideGather(const float* table,
                                                   const Id* rows,
                                                   size_t num_rows,
                                                   float* out) {
  PrefetchFirst(table, rows, num_rows, false);
  const size_t steady = num_rows - std::min(num_rows, kPrefetchRows);
  for (size_t i = 0; i < steady; ++i) {
    PrefetchRow(table + rows[i + kPrefetchRows] * RawRows::kFloats, false);
    _mm512_storeu_ps(out + i * kDim,
                     _mm512_load_ps(table + rows[i] * RawRows::kFloats));
  }
  for (size_t i = steady; i < num_rows; ++i) {
    _mm512_storeu_ps(out + i * kDim,
                     _mm512_load_ps(table + rows[i] * RawRows::kFloats));
  }
}

template <typename Id>
__attribute__((target("avx512f"))) void WideAdagrad(float* table,
                                                    const Id* rows,
                                                    size_t num_rows,
                                                    const float* gradients) {
  PrefetchFirst(table, rows, num_rows, true);
  const size_t steady = num_rows - std::min(num_rows, kPrefetchRows);
  for (size_t i = 0; i < steady; ++i) {
    PrefetchRow(table + rows[i + kPrefetchRows] * RawRows::kFloats, true);
    float* const row = table + rows[i] * RawRows::kFloats;
    WideStep(row, row + kDim, gradients + i * kDim);
  }
  for (size_t i = steady; i < num_rows; ++i) {
    float* const row = table + rows[i] * RawRows::kFloats;
    WideStep(row, row + kDim, gradients + i * kDim);
  }
}

bool HasAvx512() {
  static const bool has = __builtin_cpu_supports("avx512f");
  return has;
}

#endif  // defined(__x86_64__)

}  // namespace

void* AllocateHuge(size_t num_bytes) {
  // Room to align in.
  void* const memory =
      mmap(nullptr, num_bytes + kHugePage, PROT_READ | PROT_WRITE,
           MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  if (memory == MAP_FAILED) std::abort();
  const uintptr_t aligned =
      (reinterpret_cast<uintptr_t>(memory) + kHugePage - 1) & ~(kHugePage - 1);
  madvise(reinterpret_cast<void*>(aligned), num_bytes, MADV_HUGEPAGE);
  return reinterpret_cast<void*>(aligned);
}

void FreeHuge(void* memory, size_t num_bytes) { munmap(memory, num_bytes); }

RawRows::RawRows(uint64_t num_rows)
    : rows_(static_cast<float*>(
          AllocateHuge(num_rows * kFloats * sizeof(float)))) {
  // Touched, or all reads would be of the system's one page of zeros.
  std::fill_n(rows_, num_rows * kFloats, 0.1f);
}

template <typename Id>
void RawRows::Gather(const Id* rows, size_t num_rows, float* out) const {
#if defined(__x86_64__)
  if (HasAvx512()) return WideGather(rows_, rows, num_rows, out);
#endif
  PortableGather(rows_, rows, num_rows, out);
}

template <typename Id>
void RawRows::Adagrad(const Id* rows, size_t num_rows,
                      const float* gradients) const {
#if defined(__x86_64__)
  if (HasAvx512()) return WideAdagrad(rows_, rows, num_rows, gradients);
#endif
  PortableAdagrad(rows_, rows, num_rows, gradients);
}

void AdagradStep(float* w, float* state, const float* gradient) {
#if defined(__x86_64__)
  if (HasAvx512()) return WideStep(w, state, gradient);
#endif
  PortableStep(w, state, gradient);
}

template void RawRows::Gather(const uint32_t*, size_t, float*) const;
template void RawRows::Gather(const uint64_t*, size_t, float*) const;
template void RawRows::Adagrad(const uint32_t*, size_t, const float*) const;
template void RawRows::Adagrad(const uint64_t*, size_t, const float*) const;

}  // namespace oarlock_bench
