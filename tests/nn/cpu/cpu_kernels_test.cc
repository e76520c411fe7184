#include "nn/cpu/cpu_kernels.h"

#include <gtest/gtest.h>

#include <bit>
#include <cmath>
#include <cstdint>
#include <limits>
#include <vector>

#include "base/random.h"

namespace oarlock::nn {
namespace {

float Expand(uint16_t bits) {
  return std::bit_cast<float>(static_cast<uint32_t>(bits) << 16);
}

// The nearest by trying both neighbours.
uint16_t Nearest(float x) {
  const uint16_t down = static_cast<uint16_t>(std::bit_cast<uint32_t>(x) >> 16);
  const uint16_t up = static_cast<uint16_t>(down + 1);
  // As if there were a number behind the largest, of which infinity takes the
  // place.
  const double to_up =
      std::isinf(Expand(up)) ? std::ldexp(1.0, 128) : std::abs(Expand(up));
  const double from_down = std::abs(double{x}) - std::abs(Expand(down));
  const double from_up = to_up - std::abs(double{x});
  if (from_down != from_up) return from_down < from_up ? down : up;
  return down % 2 == 0 ? down : up;
}

TEST(RoundToBfloat16Test, IsTheNearestNumber) {
  constexpr uint64_t kSeed = 17;
  RandomSequence random(kSeed);
  std::vector<float> x = {0.0f,
                          -0.0f,
                          1.0f,
                          1.00390625f,
                          1.01171875f,
                          std::numeric_limits<float>::max(),
                          std::numeric_limits<float>::denorm_min()};
  while (x.size() < 5000) {
    const float any =
        std::bit_cast<float>(static_cast<uint32_t>(random.Below(1ull << 32)));
    if (std::isfinite(any)) x.push_back(any);
  }
  std::vector<uint16_t> y(x.size());
  cpu_kernels::RoundToBfloat16(1, x.size(), x.data(), x.size(), y.data());
  for (size_t i = 0; i < x.size(); ++i) {
    ASSERT_EQ(y[i], Nearest(x[i])) << x[i] << " seed " << kSeed;
  }
}

TEST(RoundToBfloat16Test, KeepsInfinityAndNan) {
  const float inf = std::numeric_limits<float>::infinity();
  // NaNs of whose payload rounding would make infinity or zero.
  const float nans[] = {std::bit_cast<float>(0x7f800001u),
                        std::bit_cast<float>(0x7fffffffu),
                        std::bit_cast<float>(0xffffffffu)};
  uint16_t y[3];
  const float infinities[] = {inf, -inf, 1};
  cpu_kernels::RoundToBfloat16(1, 3, infinities, 3, y);
  EXPECT_EQ(Expand(y[0]), inf);
  EXPECT_EQ(Expand(y[1]), -inf);
  EXPECT_EQ(Expand(y[2]), 1);
  cpu_kernels::RoundToBfloat16(1, 3, nans, 3, y);
  for (const uint16_t bits : y) EXPECT_TRUE(std::isnan(Expand(bits)));
}

TEST(RoundToBfloat16Test, PacksRowsOfAllWidths) {
  for (size_t cols = 1; cols < 40; ++cols) {
    const size_t stride = cols + 3;
    std::vector<float> x(4 * stride, std::nanf(""));
    for (size_t r = 0; r < 4; ++r) {
      for (size_t c = 0; c < cols; ++c) {
        x[r * stride + c] = static_cast<float>(r * 50 + c);
      }
    }
    std::vector<uint16_t> y(4 * cols + 1, 0x4242);
    cpu_kernels::RoundToBfloat16(4, cols, x.data(), stride, y.data());
    for (size_t i = 0; i < 4 * cols; ++i) {
      ASSERT_EQ(Expand(y[i]), static_cast<float>(i / cols * 50 + i % cols));
    }
    ASSERT_EQ(y.back(), 0x4242) << "written behind";
  }
}

}  // namespace
}  // namespace oarlock::nn
