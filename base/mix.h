// The two hash functions that other languages must compute the same way.
//
// Mix spreads a 64-bit key over 64 bits. It is the output function of
// SplitMix64 with the key as the state (Steele, Lea, Flood, "Fast splittable
// pseudorandom number generators", 2014):
//
//   z = key + 0x9e3779b97f4a7c15
//   z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9
//   z = (z ^ (z >> 27)) * 0x94d049bb133111eb
//   mix = z ^ (z >> 31)
//
// all modulo 2^64. Test vectors, also in tests/base/mix_test.cc:
//
//   Mix(0)                  = 0xe220a8397b1dcdaf
//   Mix(1)                  = 0x910a2dec89025cc1
//   Mix(2)                  = 0x975835de1c9756ce
//   Mix(0xffffffffffffffff) = 0xe4d971771b652c20
//
// The partition of a key is the highest bits of Mix(key); the index inside a
// partition uses the lower ones.
//
// FeatureHash turns the text of a categorical value into a key: XXH64 of the
// bytes, seeded with the slot (0 for the first categorical column), reduced
// modulo `feature_dim` unless that is 0. See docs/wire_protocol.md.

#ifndef OARLOCK_BASE_MIX_H_
#define OARLOCK_BASE_MIX_H_

#include <cstdint>
#include <string_view>

#include "base/types.h"

namespace oarlock {

constexpr uint64_t Mix(uint64_t x) {
  uint64_t z = x + 0x9e3779b97f4a7c15u;
  z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9u;
  z = (z ^ (z >> 27)) * 0x94d049bb133111ebu;
  return z ^ (z >> 31);
}
constexpr uint64_t Mix(Key key) { return Mix(static_cast<uint64_t>(key)); }

// The partition of a key whose mix is `mix`. `partition_bits` is in [0, 32].
constexpr PartitionIndex PartitionOfMix(uint64_t mix, int partition_bits) {
  // In two shifts: one by 64 is not defined.
  return PartitionIndex(
      static_cast<uint32_t>(mix >> 1 >> (63 - partition_bits)));
}

// Test vectors, more of them in tests/base/mix_test.cc:
//   FeatureHash("", 0, 0)                = 0xef46db3751d8e999
//   FeatureHash("68fd1e64", 0, 0)        = 0x5d3ccd85c9c22fe4
//   FeatureHash("68fd1e64", 1, 0)        = 0xd2e5a37bb032083c
//   FeatureHash("68fd1e64", 0, 10000001) = 2223838
Key FeatureHash(std::string_view value, uint32_t slot, uint64_t feature_dim);

}  // namespace oarlock

#endif  // OARLOCK_BASE_MIX_H_
