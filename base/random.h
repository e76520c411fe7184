// Random numbers that depend on nothing but their arguments: the value number
// `index` of stream `stream` under `seed` is the same whoever asks first, on
// any machine and any number of servers.

#ifndef OARLOCK_BASE_RANDOM_H_
#define OARLOCK_BASE_RANDOM_H_

#include <cmath>
#include <cstdint>
#include <numbers>

#include "base/mix.h"

namespace oarlock {

// A seed for one purpose (a table, a worker, an epoch) out of a job's seed.
constexpr uint64_t DeriveSeed(uint64_t seed, uint64_t purpose) {
  return Mix(seed ^ Mix(purpose + 0x632be59bd9b4e019u));
}

// 64 random bits.
constexpr uint64_t RandomBits(uint64_t seed, uint64_t index) {
  return Mix(seed + index * 0x9e3779b97f4a7c15u);
}

// Uniform in [0, 1), 24 bits.
constexpr float RandomUniform(uint64_t seed, uint64_t index) {
  return static_cast<float>(RandomBits(seed, index) >> 40) * 0x1p-24f;
}

// Standard normal (Box and Muller, 1958).
inline float RandomNormal(uint64_t seed, uint64_t index) {
  const uint64_t bits = RandomBits(seed, index);
  const double u = (static_cast<double>(bits >> 32) + 0.5) * 0x1p-32;
  const double v = static_cast<double>(bits & 0xffffffffu) * 0x1p-32;
  return static_cast<float>(std::sqrt(-2.0 * std::log(u)) *
                            std::cos(2.0 * std::numbers::pi * v));
}

// A sequence of random bits for the <random> distributions.
class RandomSequence {
 public:
  using result_type = uint64_t;
  explicit RandomSequence(uint64_t seed) : seed_(seed) {}
  static constexpr uint64_t min() { return 0; }
  static constexpr uint64_t max() { return ~uint64_t{0}; }
  uint64_t operator()() { return RandomBits(seed_, index_++); }
  // Uniform in [0, bound); bound is at least 1.
  uint64_t Below(uint64_t bound) {
    return static_cast<uint64_t>(
        (static_cast<unsigned __int128>((*this)()) * bound) >> 64);
  }
  double Uniform() { return static_cast<double>((*this)() >> 11) * 0x1p-53; }

 private:
  uint64_t seed_;
  uint64_t index_ = 0;
};

}  // namespace oarlock

#endif  // OARLOCK_BASE_RANDOM_H_
