#include "proto/value_format.h"

#include <bit>
#include <cmath>

#include "base/check.h"

namespace oarlock {

uint16_t ToBfloat16(float value) {
  const uint32_t bits = std::bit_cast<uint32_t>(value);
  // Rounding could turn a NaN into infinity; keep its sign, set a quiet bit.
  if ((bits & 0x7fffffffu) > 0x7f800000u) {
    return static_cast<uint16_t>((bits >> 16) | 0x40u);
  }
  const uint32_t round = 0x7fffu + ((bits >> 16) & 1u);
  return static_cast<uint16_t>((bits + round) >> 16);
}

float FromBfloat16(uint16_t bits) {
  return std::bit_cast<float>(uint32_t{bits} << 16);
}

uint16_t ToFloat16(float value) {
  const uint32_t bits = std::bit_cast<uint32_t>(value);
  const uint32_t sign = (bits >> 16) & 0x8000u;
  const uint32_t magnitude = bits & 0x7fffffffu;
  if (magnitude > 0x7f800000u) return static_cast<uint16_t>(sign | 0x7e00u);
  // 65520 and above round to infinity.
  if (magnitude >= 0x477ff000u) return static_cast<uint16_t>(sign | 0x7c00u);
  if (magnitude < 0x38800000u) {
    // Below 2^-14: in units of 2^-24, the FPU rounds to nearest even.
    const float units = std::bit_cast<float>(magnitude) * 0x1p24f;
    return static_cast<uint16_t>(sign |
                                 static_cast<uint32_t>(std::nearbyint(units)));
  }
  // Rebias the exponent from 127 to 15, round away 13 bits of the fraction.
  const uint32_t rebased = magnitude - ((127u - 15u) << 23);
  const uint32_t round = 0xfffu + ((rebased >> 13) & 1u);
  return static_cast<uint16_t>(sign | ((rebased + round) >> 13));
}

float FromFloat16(uint16_t bits) {
  const uint32_t sign = uint32_t{bits & 0x8000u} << 16;
  const uint32_t magnitude = bits & 0x7fffu;
  if (magnitude >= 0x7c00u) {
    return std::bit_cast<float>(sign | 0x7f800000u |
                                ((magnitude & 0x3ffu) << 13));
  }
  if (magnitude < 0x400u) {
    const float value = static_cast<float>(magnitude) * 0x1p-24f;
    return std::bit_cast<float>(sign | std::bit_cast<uint32_t>(value));
  }
  return std::bit_cast<float>(sign |
                              ((magnitude << 13) + ((127u - 15u) << 23)));
}

void NarrowValues(v1::ValueFormat format, absl::Span<const float> from,
                  absl::Span<uint16_t> to) {
  OARLOCK_CHECK(from.size() == to.size());
  OARLOCK_CHECK(format == v1::BFLOAT16 || format == v1::FLOAT16);
  if (format == v1::BFLOAT16) {
    for (size_t i = 0; i < from.size(); ++i) to[i] = ToBfloat16(from[i]);
  } else {
    for (size_t i = 0; i < from.size(); ++i) to[i] = ToFloat16(from[i]);
  }
}

void WidenValues(v1::ValueFormat format, absl::Span<const uint16_t> from,
                 absl::Span<float> to) {
  OARLOCK_CHECK(from.size() == to.size());
  OARLOCK_CHECK(format == v1::BFLOAT16 || format == v1::FLOAT16);
  if (format == v1::BFLOAT16) {
    for (size_t i = 0; i < from.size(); ++i) to[i] = FromBfloat16(from[i]);
  } else {
    for (size_t i = 0; i < from.size(); ++i) to[i] = FromFloat16(from[i]);
  }
}

}  // namespace oarlock
