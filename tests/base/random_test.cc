#include "base/random.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <set>
#include <utility>
#include <vector>

namespace oarlock {
namespace {

// Initial values of rows depend on these: changing one changes every model.
TEST(RandomTest, TestVectors) {
  EXPECT_EQ(RandomBits(1, 0), 0x910a2dec89025cc1u);
  EXPECT_EQ(RandomBits(1, 1), 0xbeeb8da1658eec67u);
  EXPECT_EQ(DeriveSeed(1, 2), 0x331937775ca44230u);
  EXPECT_EQ(RandomUniform(1, 0), 0x1.22145ap-1f);
  EXPECT_EQ(RandomUniform(1, 1), 0x1.7dd71ap-1f);
  EXPECT_FLOAT_EQ(RandomNormal(1, 0), -1.04003775f);
  EXPECT_FLOAT_EQ(RandomNormal(1, 1), -0.610216081f);
  EXPECT_EQ(RandomSequence(5)(), 0x63033b0ca389c35au);
}

// Mean and mean square of `f(i)`.
template <typename F>
std::pair<double, double> Moments(int count, F f) {
  double sum = 0, squares = 0;
  for (int i = 0; i < count; ++i) {
    const double x = f(i);
    sum += x;
    squares += x * x;
  }
  return {sum / count, squares / count};
}

TEST(RandomTest, UniformLiesInTheUnitIntervalWithItsMoments) {
  float least = 1, most = 0;
  const auto [mean, square] = Moments(100000, [&](int i) {
    const float x = RandomUniform(42, i);
    least = std::min(least, x);
    most = std::max(most, x);
    return x;
  });
  EXPECT_GE(least, 0.0f);
  EXPECT_LT(most, 1.0f);
  EXPECT_NEAR(mean, 0.5, 0.01);
  EXPECT_NEAR(square, 1.0 / 3, 0.01);
}

TEST(RandomTest, NormalHasMeanZeroVarianceOneAndIsFinite) {
  bool finite = true;
  const auto [mean, square] = Moments(100000, [&](int i) {
    const float x = RandomNormal(42, i);
    finite = finite && std::isfinite(x);
    return x;
  });
  EXPECT_TRUE(finite);
  EXPECT_NEAR(mean, 0, 0.02);
  EXPECT_NEAR(square, 1, 0.03);
}

TEST(RandomTest, PurposesOfOneSeedDiffer) {
  std::set<uint64_t> seeds;
  for (uint64_t seed = 0; seed < 30; ++seed) {
    for (uint64_t purpose = 0; purpose < 30; ++purpose) {
      seeds.insert(DeriveSeed(seed, purpose));
    }
  }
  EXPECT_EQ(seeds.size(), 900u);
}

TEST(RandomSequenceTest, BelowReachesEveryNumberBelowItsBoundAboutEqually) {
  RandomSequence r(9);
  std::vector<int> count(7, 0);
  for (int i = 0; i < 70000; ++i) {
    const uint64_t x = r.Below(7);
    ASSERT_LT(x, 7u);
    ++count[x];
  }
  for (int c : count) EXPECT_NEAR(c, 10000, 500);
  EXPECT_EQ(r.Below(1), 0u);
}

TEST(RandomSequenceTest, TheSameSeedShufflesTheSame) {
  std::vector<int> a(100), b;
  for (int i = 0; i < 100; ++i) a[i] = i;
  b = a;
  RandomSequence ra(3), rb(3);
  std::shuffle(a.begin(), a.end(), ra);
  std::shuffle(b.begin(), b.end(), rb);
  EXPECT_EQ(a, b);
  EXPECT_FALSE(std::is_sorted(a.begin(), a.end()));
}

}  // namespace
}  // namespace oarlock
