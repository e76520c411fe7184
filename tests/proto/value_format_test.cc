#include "proto/value_format.h"

#include <gtest/gtest.h>

#include <bit>
#include <cmath>
#include <limits>
#include <vector>

#include "base/random.h"

namespace oarlock {
namespace {

constexpr float kInfinity = std::numeric_limits<float>::infinity();

// The value of a 16-bit float from its definition.
double ByDefinition(uint16_t bits, int exponent_bits) {
  const int fraction_bits = 15 - exponent_bits;
  const int max_exponent = (1 << exponent_bits) - 1;
  const int bias = max_exponent / 2;
  const int exponent = (bits >> fraction_bits) & max_exponent;
  const double fraction =
      std::ldexp(bits & ((1 << fraction_bits) - 1), -fraction_bits);
  const double sign = bits & 0x8000 ? -1 : 1;
  if (exponent == max_exponent) {
    return fraction == 0 ? sign * kInfinity : std::nan("");
  }
  if (exponent == 0) return sign * std::ldexp(fraction, 1 - bias);
  return sign * std::ldexp(1 + fraction, exponent - bias);
}

struct Format {
  v1::ValueFormat format;
  int exponent_bits;
  uint16_t (*narrow)(float);
  float (*widen)(uint16_t);
};
constexpr Format kFormats[] = {{v1::BFLOAT16, 8, ToBfloat16, FromBfloat16},
                               {v1::FLOAT16, 5, ToFloat16, FromFloat16}};

TEST(ValueFormatTest, All65536ValuesHaveTheirDefinitionsValueAndComeBack) {
  for (const Format& f : kFormats) {
    for (uint32_t bits = 0; bits < 65536; ++bits) {
      const uint16_t narrow = static_cast<uint16_t>(bits);
      const double expected = ByDefinition(narrow, f.exponent_bits);
      const float wide = f.widen(narrow);
      if (std::isnan(expected)) {
        ASSERT_TRUE(std::isnan(wide)) << bits;
        ASSERT_TRUE(std::isnan(f.widen(f.narrow(wide)))) << bits;
      } else {
        ASSERT_EQ(wide, expected) << bits;
        ASSERT_EQ(std::signbit(wide), (bits & 0x8000) != 0) << bits;
        ASSERT_EQ(f.narrow(wide), narrow) << bits;
      }
    }
  }
}

TEST(ValueFormatTest, FloatsRoundToTheNearestAndTiesToEven) {
  for (const Format& f : kFormats) {
    const uint16_t infinity = f.narrow(kInfinity);
    // Halfway between neighbours, and just beside it; all finite positives.
    for (uint16_t low = 0; low + 1 < infinity; ++low) {
      const double a = f.widen(low), b = f.widen(low + 1);
      const float middle = static_cast<float>((a + b) / 2);
      if (middle != (a + b) / 2) continue;  // below the floats' own grain
      ASSERT_EQ(f.narrow(middle), low % 2 == 0 ? low : low + 1) << low;
      ASSERT_EQ(f.narrow(std::nextafter(middle, 0.0f)), low) << low;
      ASSERT_EQ(f.narrow(std::nextafter(middle, kInfinity)), low + 1) << low;
      ASSERT_EQ(f.narrow(-middle), 0x8000 | f.narrow(middle)) << low;
    }
  }
}

TEST(ValueFormatTest, ValuesBeyondTheRangeBecomeInfinity) {
  EXPECT_EQ(ToFloat16(65519.0f), 0x7bff);
  EXPECT_EQ(ToFloat16(65520.0f), 0x7c00);
  EXPECT_EQ(ToFloat16(1e30f), 0x7c00);
  EXPECT_EQ(ToFloat16(-1e30f), 0xfc00);
  EXPECT_EQ(ToBfloat16(std::numeric_limits<float>::max()), 0x7f80);
}

TEST(ValueFormatTest, ArraysConvertAsTheirElementsDo) {
  RandomSequence r(1);
  for (const Format& f : kFormats) {
    std::vector<float> values(100);
    for (float& value : values) {
      value = std::bit_cast<float>(static_cast<uint32_t>(r()));
    }
    std::vector<uint16_t> narrow(values.size());
    NarrowValues(f.format, values, absl::MakeSpan(narrow));
    std::vector<float> wide(values.size());
    WidenValues(f.format, narrow, absl::MakeSpan(wide));
    for (size_t i = 0; i < values.size(); ++i) {
      EXPECT_EQ(narrow[i], f.narrow(values[i]));
      EXPECT_EQ(std::bit_cast<uint32_t>(wide[i]),
                std::bit_cast<uint32_t>(f.widen(narrow[i])));
    }
  }
}

}  // namespace
}  // namespace oarlock
