// The traffic of the bench: batches of 512 examples x 26 fields = 13,312 keys
// out of 10M, drawn uniformly or by Zipf's law with exponent 1.05, with rows
// of 16 floats. Everybody gets the same keys.

#ifndef OARLOCK_BENCH_COMMON_WORKLOAD_H_
#define OARLOCK_BENCH_COMMON_WORKLOAD_H_

#include <cstddef>
#include <cstdint>
#include <vector>

namespace oarlock_bench {

inline constexpr size_t kDim = 16;
inline constexpr size_t kBatchKeys = 512 * 26;
inline constexpr uint64_t kTableRows = 10'000'000;
inline constexpr double kZipfExponent = 1.05;
inline constexpr float kLearningRate = 0.01f;

enum class Distribution { kUniform, kZipf };

// A bijection of 64 bits without a pattern that a hash function could profit
// from: the finaliser of MurmurHash3 (Appleby, 2011).
constexpr uint64_t Scatter(uint64_t x) {
  x ^= x >> 33;
  x *= 0xff51afd7ed558ccdu;
  x ^= x >> 33;
  x *= 0xc4ceb9fe1a85ec53u;
  return x ^ (x >> 33);
}

// The key of row number `row`.
constexpr uint64_t KeyOfRow(uint64_t row) { return Scatter(2 * row + 1); }

// `num_batches` batches of kBatchKeys row numbers below `num_rows`. Zipf's
// ranks are scattered over the rows. `stream` keeps threads apart.
std::vector<std::vector<uint32_t>> MakeBatches(Distribution distribution,
                                               size_t num_batches,
                                               uint64_t num_rows,
                                               uint64_t stream);

// Each row number once, in order of appearance.
std::vector<uint32_t> Distinct(const std::vector<uint32_t>& rows);

std::vector<uint64_t> KeysOf(const std::vector<uint32_t>& rows);

// Gradients for so many rows: small, of both signs.
std::vector<float> SomeGradients(size_t num_rows = kBatchKeys);

}  // namespace oarlock_bench

#endif  // OARLOCK_BENCH_COMMON_WORKLOAD_H_
