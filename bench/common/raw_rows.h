// Rows as fast as this machine's memory gives them: an array on huge pages,
// addressed by row number. No index, no header, no lock; nothing of the
// product. A row is 16 floats of embedding, then 16 of adagrad's state: 128
// bytes.

#ifndef OARLOCK_BENCH_COMMON_RAW_ROWS_H_
#define OARLOCK_BENCH_COMMON_RAW_ROWS_H_

#include <cstddef>
#include <cstdint>

namespace oarlock_bench {

// `num_bytes` of zeros on huge pages where the system has them.
void* AllocateHuge(size_t num_bytes);
// Gives them back, but for the address space (2 MiB at most) to align in.
void FreeHuge(void* memory, size_t num_bytes);

// Rows ahead for which the memory is asked: the best of 8, 16, 32 and 64.
inline constexpr size_t kPrefetchRows = 32;

class RawRows {
 public:
  static constexpr size_t kFloats = 32;

  explicit RawRows(uint64_t num_rows);

  float* At(uint64_t row) const { return rows_ + row * kFloats; }

  // out[i] = the embedding of row rows[i]. `Id`: uint32_t or uint64_t.
  template <typename Id>
  void Gather(const Id* rows, size_t num_rows, float* out) const;

  // Adagrad on row rows[i] with the 16 floats gradients[i].
  template <typename Id>
  void Adagrad(const Id* rows, size_t num_rows, const float* gradients) const;

 private:
  float* rows_;
};

// One step on one row of 16 floats: g += x^2; w -= rate * x / sqrt(g), by the
// fastest way that this CPU has (AVX-512's reciprocal square root).
void AdagradStep(float* w, float* state, const float* gradient);

}  // namespace oarlock_bench

#endif  // OARLOCK_BENCH_COMMON_RAW_ROWS_H_
