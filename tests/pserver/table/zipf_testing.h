// Ranks as click logs have them: few are frequent, most are rare.

#ifndef OARLOCK_TESTS_PSERVER_TABLE_ZIPF_TESTING_H_
#define OARLOCK_TESTS_PSERVER_TABLE_ZIPF_TESTING_H_

#include <cmath>
#include <cstdint>

#include "base/random.h"

namespace oarlock::pserver {

// A rank from 1 to `n` with a chance of about rank^-1.05.
inline uint64_t ZipfRank(RandomSequence* random, uint64_t n) {
  constexpr double kBend = .05;  // the exponent beyond 1
  const double tail = std::pow(static_cast<double>(n), -kBend);
  const double u = random->Uniform() * (1 - tail) + tail;
  return static_cast<uint64_t>(std::pow(u, -1 / kBend));
}

}  // namespace oarlock::pserver

#endif  // OARLOCK_TESTS_PSERVER_TABLE_ZIPF_TESTING_H_
