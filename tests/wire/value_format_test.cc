#include "wire/value_format.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstring>
#include <limits>
#include <numeric>
#include <string>
#include <vector>

#include "base/random.h"
#include "hwy/highway.h"

namespace oarlock::wire {
namespace {

using ::testing::HasSubstr;

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

TEST(ValueFormatTest, FiniteStaysFiniteAndInfinityInfinite) {
  constexpr float kLargest = std::numeric_limits<float>::max();
  EXPECT_EQ(ToFloat16(65519.0f), 0x7bff);
  EXPECT_EQ(ToFloat16(65520.0f), 0x7bff);
  EXPECT_EQ(FromFloat16(ToFloat16(1e30f)), 65504.0f);
  EXPECT_EQ(FromFloat16(ToFloat16(-kLargest)), -65504.0f);
  EXPECT_EQ(ToBfloat16(kLargest), 0x7f7f);
  EXPECT_EQ(ToBfloat16(-kLargest), 0xff7f);
  for (const Format& f : kFormats) {
    EXPECT_EQ(f.widen(f.narrow(kInfinity)), kInfinity);
    EXPECT_EQ(f.widen(f.narrow(-kInfinity)), -kInfinity);
  }
}

TEST(ValueFormatTest, NamesAreThoseOfTheFlags) {
  EXPECT_EQ(*ParseValueFormat("float32"), v1::FLOAT32);
  EXPECT_EQ(*ParseValueFormat("bfloat16"), v1::BFLOAT16);
  EXPECT_EQ(*ParseValueFormat("float16"), v1::FLOAT16);
  const absl::Status status = ParseValueFormat("fp16").status();
  EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument);
  EXPECT_THAT(std::string(status.message()), HasSubstr("fp16"));
}

// The array functions, on every instruction set of this machine.
class ArraysTest : public ::testing::Test {
 protected:
  ~ArraysTest() override { Use(0); }

  // 0: the best one.
  static void Use(int64_t target) {
    hwy::SetSupportedTargetsForTest(target);
    hwy::GetChosenTarget().Update(hwy::SupportedTargets());
  }

  template <typename Test>
  static void OnEveryTarget(Test test) {
    const std::vector<int64_t> targets = hwy::SupportedAndGeneratedTargets();
    for (const int64_t target : targets) {
      SCOPED_TRACE(hwy::TargetName(target));
      Use(target);
      test();
    }
  }

  static void ExpectNarrowedAsOneByOne(const Format& f,
                                       absl::Span<const float> values) {
    std::vector<uint16_t> narrow(values.size() + 1, 0xabcd);
    NarrowValues(f.format, values, absl::MakeSpan(narrow).first(values.size()));
    for (size_t i = 0; i < values.size(); ++i) {
      ASSERT_EQ(narrow[i], f.narrow(values[i]))
          << std::bit_cast<uint32_t>(values[i]) << " at " << i;
    }
    ASSERT_EQ(narrow.back(), 0xabcd) << "written beyond the end";
  }

  static void ExpectWidenedAsOneByOne(const Format& f,
                                      absl::Span<const uint16_t> narrow) {
    for (size_t offset = 0; offset < 2; ++offset) {
      std::vector<char> bytes(narrow.size() * 2 + offset);
      std::copy_n(reinterpret_cast<const char*>(narrow.data()),
                  narrow.size() * 2, bytes.begin() + offset);
      std::vector<float> wide(narrow.size() + 1, 7);
      WidenValues(f.format, bytes.data() + offset,
                  absl::MakeSpan(wide).first(narrow.size()));
      for (size_t i = 0; i < narrow.size(); ++i) {
        ASSERT_EQ(std::bit_cast<uint32_t>(wide[i]),
                  std::bit_cast<uint32_t>(f.widen(narrow[i])))
            << narrow[i] << " at " << i;
      }
      ASSERT_EQ(wide.back(), 7) << "written beyond the end";
    }
  }
};

TEST_F(ArraysTest, All65536PatternsWidenAsOneByOne) {
  std::vector<uint16_t> narrow(65536);
  std::iota(narrow.begin(), narrow.end(), 0);
  OnEveryTarget([&] {
    for (const Format& f : kFormats) ExpectWidenedAsOneByOne(f, narrow);
  });
}

TEST_F(ArraysTest, FloatsOfEveryKindNarrowAsOneByOne) {
  constexpr uint64_t kSeed = 1;
  SCOPED_TRACE(testing::Message() << "seed " << kSeed);
  RandomSequence r(kSeed);
  std::vector<float> values;
  // Any bits: NaN, infinities, subnormals of the floats' own among them.
  for (int i = 0; i < 300'000; ++i) {
    values.push_back(std::bit_cast<float>(static_cast<uint32_t>(r())));
  }
  // Those that float16 can hold, its subnormals, and a little beyond.
  for (int i = 0; i < 300'000; ++i) {
    const float magnitude = std::ldexp(1 + static_cast<float>(r.Uniform()),
                                       static_cast<int>(r.Below(48)) - 30);
    values.push_back(r.Below(2) == 0 ? magnitude : -magnitude);
  }
  // Every 16-bit value, the middle to its neighbour, and just beside it.
  for (const Format& f : kFormats) {
    for (uint32_t bits = 0; bits < 65536; ++bits) {
      const uint32_t wide =
          std::bit_cast<uint32_t>(f.widen(static_cast<uint16_t>(bits)));
      const uint32_t half = f.format == v1::BFLOAT16 ? 1u << 15 : 1u << 12;
      for (uint32_t near :
           {wide, wide + half - 1, wide + half, wide + half + 1, wide | 1}) {
        values.push_back(std::bit_cast<float>(near));
      }
    }
  }
  OnEveryTarget([&] {
    for (const Format& f : kFormats) ExpectNarrowedAsOneByOne(f, values);
  });
}

TEST_F(ArraysTest, ArraysOfEverySmallLengthConvert) {
  RandomSequence r(2);
  std::vector<float> values;
  std::vector<uint16_t> narrow;
  for (int i = 0; i < 70; ++i) {
    values.push_back(std::bit_cast<float>(static_cast<uint32_t>(r())));
    narrow.push_back(static_cast<uint16_t>(r()));
  }
  OnEveryTarget([&] {
    for (size_t size = 0; size <= values.size(); ++size) {
      for (const Format& f : kFormats) {
        ExpectNarrowedAsOneByOne(f, absl::MakeSpan(values).first(size));
        ExpectWidenedAsOneByOne(f, absl::MakeSpan(narrow).first(size));
      }
    }
  });
}

}  // namespace
}  // namespace oarlock::wire
