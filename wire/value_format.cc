#include "wire/value_format.h"

#include <algorithm>
#include <bit>
#include <cmath>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"

namespace oarlock::wire {
namespace {

constexpr uint32_t kFloatInfinity = 0x7f800000u;
constexpr uint32_t kLargestBfloat16 = 0x7f7fu;
constexpr uint32_t kLargestFloat16 = 0x7bffu;

}  // namespace

uint16_t ToBfloat16(float value) {
  const uint32_t bits = std::bit_cast<uint32_t>(value);
  const uint32_t sign = (bits >> 16) & 0x8000u;
  const uint32_t magnitude = bits & 0x7fffffffu;
  if (magnitude >= kFloatInfinity) {
    // Cutting bits off a NaN could leave infinity; the quiet bit keeps it a
    // NaN.
    const uint32_t quiet = magnitude > kFloatInfinity ? 0x40u : 0;
    return static_cast<uint16_t>(sign | (magnitude >> 16) | quiet);
  }
  const uint32_t round = 0x7fffu + ((magnitude >> 16) & 1u);
  return static_cast<uint16_t>(
      sign | std::min((magnitude + round) >> 16, kLargestBfloat16));
}

float FromBfloat16(uint16_t bits) {
  return std::bit_cast<float>(uint32_t{bits} << 16);
}

uint16_t ToFloat16(float value) {
  const uint32_t bits = std::bit_cast<uint32_t>(value);
  const uint32_t sign = (bits >> 16) & 0x8000u;
  const uint32_t magnitude = bits & 0x7fffffffu;
  if (magnitude >= kFloatInfinity) {
    return static_cast<uint16_t>(
        sign | (magnitude > kFloatInfinity ? 0x7e00u : 0x7c00u));
  }
  if (magnitude < 0x38800000u) {
    // Below 2^-14: in units of 2^-24, the FPU rounds to nearest even.
    const float units = std::bit_cast<float>(magnitude) * 0x1p24f;
    return static_cast<uint16_t>(sign |
                                 static_cast<uint32_t>(std::nearbyint(units)));
  }
  // Rebias the exponent from 127 to 15, round away 13 bits of the fraction.
  const uint32_t rebased = magnitude - ((127u - 15u) << 23);
  const uint32_t round = 0xfffu + ((rebased >> 13) & 1u);
  return static_cast<uint16_t>(
      sign | std::min((rebased + round) >> 13, kLargestFloat16));
}

float FromFloat16(uint16_t bits) {
  const uint32_t sign = uint32_t{bits & 0x8000u} << 16;
  const uint32_t magnitude = bits & 0x7fffu;
  if (magnitude >= 0x7c00u) {
    return std::bit_cast<float>(sign | kFloatInfinity |
                                ((magnitude & 0x3ffu) << 13));
  }
  if (magnitude < 0x400u) {
    const float value = static_cast<float>(magnitude) * 0x1p-24f;
    return std::bit_cast<float>(sign | std::bit_cast<uint32_t>(value));
  }
  return std::bit_cast<float>(sign |
                              ((magnitude << 13) + ((127u - 15u) << 23)));
}

size_t ValueBytes(v1::ValueFormat format) {
  return format == v1::FLOAT32 ? sizeof(float) : sizeof(uint16_t);
}

absl::StatusOr<v1::ValueFormat> ParseValueFormat(absl::string_view name) {
  if (name == "float32") return v1::FLOAT32;
  if (name == "bfloat16") return v1::BFLOAT16;
  if (name == "float16") return v1::FLOAT16;
  return absl::InvalidArgumentError(
      absl::StrCat("a value format is \"", name,
                   "\"; legal are float32, bfloat16, float16"));
}

}  // namespace oarlock::wire
