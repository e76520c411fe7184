// What the version of a dense block says: which incarnation of its server
// counts, and how often the block was pushed since that began.

#ifndef OARLOCK_BASE_DENSE_VERSION_H_
#define OARLOCK_BASE_DENSE_VERSION_H_

#include <cstdint>

#include "base/types.h"

namespace oarlock {

// Bits of the count, which begins at 1. A generation has 41 bits until 2039.
inline constexpr int kDenseCountBits = 22;

// What a server of this generation counts versions from. A worker keeps the
// versions that it pulled over a server's crash, and the next incarnation
// begins with an older cut: counting on from there, other contents would get a
// number that the worker knows. Generations are milliseconds of a clock, so
// what one incarnation counts stays below the next one's first version as long
// as no block takes four million pushes a millisecond.
constexpr uint64_t FirstDenseVersion(Generation server_generation) {
  return (server_generation.value() << kDenseCountBits) + 1;
}

// Pushes to the block in this incarnation, modulo 2^22.
constexpr uint64_t DensePushes(uint64_t version) {
  return (version - 1) & ((uint64_t{1} << kDenseCountBits) - 1);
}

// Whether both are versions of one incarnation, told by their distance: also
// where a count has outgrown its bits, as long as less than half of 2^22 pushes
// lie between the two.
constexpr bool SameIncarnation(uint64_t a, uint64_t b) {
  const uint64_t distance = a > b ? a - b : b - a;
  return distance < uint64_t{1} << (kDenseCountBits - 1);
}

}  // namespace oarlock

#endif  // OARLOCK_BASE_DENSE_VERSION_H_
