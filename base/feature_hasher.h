// FeatureHash of many values under one feature_dim, at the speed of the reader:
// values of 8 bytes, which nearly all are, inline, and without a division.

#ifndef OARLOCK_BASE_FEATURE_HASHER_H_
#define OARLOCK_BASE_FEATURE_HASHER_H_

#include <xxhash.h>

#include <bit>
#include <cstddef>
#include <cstdint>
#include <cstring>

#include "base/types.h"

namespace oarlock {

// n modulo a divisor that is known beforehand, by multiplication: D. Lemire,
// O. Kaser, N. Kurz, "Faster remainder by direct computation", 2019, with
// F = 128 bits of fraction, which is exact for all 64-bit numbers.
class FixedModulo {
 public:
  // 0 stands for 2^64: nothing changes.
  explicit FixedModulo(uint64_t divisor)
      : divisor_(divisor),
        inverse_(divisor == 0 ? Wide{0} : ~Wide{0} / divisor + 1) {}

  uint64_t Of(uint64_t n) const {
    if (divisor_ == 0) return n;
    const Wide fraction = inverse_ * n;
    // The high half of the 192-bit product fraction * divisor_.
    const Wide low = (fraction & ~uint64_t{0}) * divisor_;
    const Wide high = (fraction >> 64) * divisor_;
    return static_cast<uint64_t>((high + (low >> 64)) >> 64);
  }

 private:
  __extension__ using Wide = unsigned __int128;
  const uint64_t divisor_;
  const Wide inverse_;
};

// XXH64 of 8 bytes: what is left of the algorithm when the length is known
// (xxHash fast digest algorithm, version 0.1.1, "XXH64 algorithm description").
// The bytes are those of `lane`, the first the lowest.
constexpr uint64_t Xxh64Of8(uint64_t lane, uint64_t seed) {
  constexpr uint64_t kPrime1 = 0x9e3779b185ebca87u;
  constexpr uint64_t kPrime2 = 0xc2b2ae3d27d4eb4fu;
  constexpr uint64_t kPrime3 = 0x165667b19e3779f9u;
  constexpr uint64_t kPrime4 = 0x85ebca77c2b2ae63u;
  constexpr uint64_t kPrime5 = 0x27d4eb2f165667c5u;
  uint64_t hash = seed + kPrime5 + 8;
  hash ^= std::rotl(lane * kPrime2, 31) * kPrime1;
  hash = std::rotl(hash, 27) * kPrime1 + kPrime4;
  hash = (hash ^ (hash >> 33)) * kPrime2;
  hash = (hash ^ (hash >> 29)) * kPrime3;
  return hash ^ (hash >> 32);
}

class FeatureHasher {
 public:
  explicit FeatureHasher(uint64_t feature_dim) : modulo_(feature_dim) {}

  // FeatureHash({data, size}, slot, feature_dim).
  Key Hash(const char* data, size_t size, uint32_t slot) const {
    return Key{modulo_.Of(XXH64(data, size, slot))};
  }
  // The same of the 8 bytes of `lane`, the first the lowest.
  Key HashOf8(uint64_t lane, uint32_t slot) const {
    return Key{modulo_.Of(Xxh64Of8(lane, slot))};
  }

 private:
  const FixedModulo modulo_;
};

}  // namespace oarlock

#endif  // OARLOCK_BASE_FEATURE_HASHER_H_
