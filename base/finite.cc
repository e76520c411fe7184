#include "base/finite.h"

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <cstring>

namespace oarlock {
namespace {

// Looked at before it is asked which one it was.
constexpr size_t kBlock = 4096;

// All bits of its exponent are set where a float is not finite.
[[gnu::always_inline]] inline bool NoneIsInfiniteOrNan(const char* floats,
                                                       size_t n) {
  constexpr uint32_t kExponent = 0x7f800000;
  uint32_t any = 0;
  // Compares and ors: what vectors have.
  for (size_t i = 0; i < n; ++i) {
    uint32_t bits;
    std::memcpy(&bits, floats + i * sizeof(bits), sizeof(bits));
    any |= (bits & kExponent) == kExponent ? ~uint32_t{0} : 0;
  }
  return any == 0;
}

// Vectors of eight, where the processor has them.
__attribute__((target("avx2"))) bool AllFiniteInEights(const char* floats,
                                                       size_t n) {
  return NoneIsInfiniteOrNan(floats, n);
}

}  // namespace

bool AllFinite(const void* floats, size_t n) {
  static const bool has_eights = __builtin_cpu_supports("avx2");
  const char* const bytes = static_cast<const char*>(floats);
  return has_eights ? AllFiniteInEights(bytes, n)
                    : NoneIsInfiniteOrNan(bytes, n);
}

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
