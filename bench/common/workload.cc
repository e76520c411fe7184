#include "bench/common/workload.h"

#include <cmath>
#include <unordered_set>

namespace oarlock_bench {
namespace {

class Random {
 public:
  explicit Random(uint64_t seed) : state_(Scatter(seed + 1)) {}
  uint64_t Next() { return Scatter(state_ += 0x9e3779b97f4a7c15u); }
  uint64_t Below(uint64_t bound) {
    return static_cast<uint64_t>(
        (static_cast<unsigned __int128>(Next()) * bound) >> 64);
  }
  double Uniform() { return static_cast<double>(Next() >> 11) * 0x1p-53; }

 private:
  uint64_t state_;
};

// Ranks 0, 1, 2 ... below n with probability proportional to (rank + 1)^-s,
// s != 1: rejection-inversion (Hormann and Derflinger, 1996).
class Zipf {
 public:
  Zipf(double n, double s)
      : n_(n),
        s_(s),
        low_(Integral(1.5) - 1),
        high_(Integral(n + 0.5)),
        cut_(2 - Inverse(Integral(2.5) - Density(2))) {}

  uint64_t Rank(Random& random) const {
    for (;;) {
      const double u = high_ + random.Uniform() * (low_ - high_);
      const double x = Inverse(u);
      const double k = std::fmin(std::fmax(std::floor(x + 0.5), 1), n_);
      if (k - x <= cut_ || u >= Integral(k + 0.5) - Density(k)) {
        return static_cast<uint64_t>(k) - 1;
      }
    }
  }

 private:
  double Density(double x) const { return std::pow(x, -s_); }
  double Integral(double x) const {
    return (std::pow(x, 1 - s_) - 1) / (1 - s_);
  }
  double Inverse(double u) const {
    return std::pow(1 + u * (1 - s_), 1 / (1 - s_));
  }

  const double n_, s_, low_, high_, cut_;
};

}  // namespace

std::vector<std::vector<uint32_t>> MakeBatches(Distribution distribution,
                                               size_t num_batches,
                                               uint64_t num_rows,
                                               uint64_t stream) {
  Random random(stream);
  const Zipf zipf(static_cast<double>(num_rows), kZipfExponent);
  std::vector<std::vector<uint32_t>> batches(num_batches);
  for (std::vector<uint32_t>& batch : batches) {
    batch.resize(kBatchKeys);
    for (uint32_t& row : batch) {
      // A prime that divides no power of ten: another row for each rank.
      row = static_cast<uint32_t>(distribution == Distribution::kUniform
                                      ? random.Below(num_rows)
                                      : zipf.Rank(random) * 7368787 % num_rows);
    }
  }
  return batches;
}

std::vector<uint32_t> Distinct(const std::vector<uint32_t>& rows) {
  std::unordered_set<uint32_t> seen;
  std::vector<uint32_t> distinct;
  for (const uint32_t row : rows) {
    if (seen.insert(row).second) distinct.push_back(row);
  }
  return distinct;
}

std::vector<uint64_t> KeysOf(const std::vector<uint32_t>& rows) {
  std::vector<uint64_t> keys;
  for (const uint32_t row : rows) keys.push_back(KeyOfRow(row));
  return keys;
}

std::vector<float> SomeGradients(size_t num_rows) {
  std::vector<float> gradients(num_rows * kDim);
  for (size_t i = 0; i < gradients.size(); ++i) {
    gradients[i] = static_cast<float>(static_cast<int>(i % 7) - 3) * 0.01f;
  }
  return gradients;
}

}  // namespace oarlock_bench
