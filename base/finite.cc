#include "base/finite.h"

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstdint>

namespace oarlock {
namespace {

// Looked at before it is asked which one it was.
constexpr size_t kBlock = 4096;

// All bits of its exponent are set where a float is not finite.
bool AllFinite(const float* values, size_t n) {
  constexpr uint32_t kExponent = 0x7f800000;
  uint32_t any = 0;
  // Compares and ors: what vectors of four have.
  for (size_t i = 0; i < n; ++i) {
    const uint32_t exponent = std::bit_cast<uint32_t>(values[i]) & kExponent;
    any |= exponent == kExponent ? ~uint32_t{0} : 0;
  }
  return any == 0;
}

}  // namespace

size_t FirstNotFinite(const float* values, size_t n) {
  for (size_t begin = 0; begin < n; begin += kBlock) {
    const size_t end = std::min(begin + kBlock, n);
    if (AllFinite(values + begin, end - begin)) continue;
    return std::find_if(values + begin, values + end,
                        [](float value) { return !std::isfinite(value); }) -
           values;
  }
  return n;
}

}  // namespace oarlock
