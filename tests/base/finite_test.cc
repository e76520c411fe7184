#include "base/finite.h"

#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <vector>

namespace oarlock {
namespace {

TEST(FiniteTest, TheFirstThatIsNotFiniteIsFound) {
  constexpr float kMax = std::numeric_limits<float>::max();
  for (const size_t n : {0, 1, 7, 4095, 4096, 4097, 10'000}) {
    std::vector<float> values(n, -kMax);
    EXPECT_EQ(FirstNotFinite(values.data(), n), n);
    for (const float bad : {NAN, -NAN, INFINITY, -INFINITY}) {
      for (size_t at = 0; at < n; at += 1 + n / 7) {
        std::vector<float> spoilt = values;
        spoilt[at] = bad;
        if (at + 1 < n) spoilt[n - 1] = bad;
        ASSERT_EQ(FirstNotFinite(spoilt.data(), n), at) << n;
      }
    }
  }
}

TEST(FiniteTest, SmallNumbersAreFinite) {
  const std::vector<float> values = {0, -0.0f,
                                     std::numeric_limits<float>::denorm_min(),
                                     std::numeric_limits<float>::min()};
  EXPECT_EQ(FirstNotFinite(values.data(), values.size()), values.size());
}

}  // namespace
}  // namespace oarlock
