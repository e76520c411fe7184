#include "sparse_table/rules/count_sketch.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <map>

#include "base/mix.h"
#include "base/random.h"

namespace oarlock::sparse_table {
namespace {

TEST(CountSketchTest, EstimatesAreNeverLowAndSeldomHighByMoreThanStated) {
  constexpr uint32_t kWidth = 1024;
  for (const uint64_t seed : {1u, 2u, 3u, 4u, 5u}) {
    SCOPED_TRACE(testing::Message() << "seed " << seed);
    RandomSequence random(seed);
    // As full as admission lets it get; some keys often, most of them once.
    CountSketch sketch(kWidth, kWidth);
    std::map<uint64_t, uint32_t> sums;
    while (sketch.sum() < kWidth / 2) {
      const uint64_t key = random.Below(2) ? random.Below(20) : random();
      const uint32_t estimate = sketch.Add(Mix(key), 1);
      ASSERT_GE(estimate, ++sums[key]);
    }
    const double error = std::exp(1.0) * kWidth / 2 / kWidth;
    size_t num_wrong = 0;
    for (const auto& [key, sum] : sums) {
      const uint32_t estimate = sketch.Estimate(Mix(key));
      ASSERT_GE(estimate, sum);
      num_wrong += estimate > sum + error;
    }
    EXPECT_LE(static_cast<double>(num_wrong),
              std::exp(-CountSketch::kDepth) * static_cast<double>(sums.size()))
        << sums.size() << " keys";
    // Keys that never came: the bound is about any key.
    size_t num_high = 0;
    constexpr size_t kStrangers = 20000;
    for (size_t i = 0; i < kStrangers; ++i) {
      num_high += sketch.Estimate(Mix(random())) > error;
    }
    EXPECT_LE(static_cast<double>(num_high),
              std::exp(-CountSketch::kDepth) * kStrangers);
  }
}

TEST(CountSketchTest, WeightsAddUpAndStayAtTheMaximum) {
  CountSketch sketch(64, ~uint64_t{0});
  EXPECT_EQ(sketch.Add(7, 1000), 1000u);
  EXPECT_EQ(sketch.Add(7, 24), 1024u);
  EXPECT_EQ(sketch.Add(7, 0), 1024u);
  EXPECT_EQ(sketch.Estimate(7), 1024u);
  EXPECT_EQ(sketch.Add(7, 0xffffffffu), CountSketch::kCounterMax);
  EXPECT_EQ(sketch.Add(7, 1), CountSketch::kCounterMax);
}

TEST(CountSketchTest, AFullSketchForgetsHalf) {
  CountSketch sketch(64, 100);
  for (int i = 0; i < 99; ++i) sketch.Add(7, 1);
  EXPECT_EQ(sketch.Estimate(7), 99u);
  EXPECT_EQ(sketch.Add(7, 1), 100u) << "what was asked for is told in full";
  EXPECT_EQ(sketch.Estimate(7), 50u);
  EXPECT_EQ(sketch.sum(), 50u);
}

TEST(CountSketchTest, AnEndlessStreamOfNewKeysDoesNotFillIt) {
  constexpr uint64_t kSeed = 8;
  SCOPED_TRACE(testing::Message() << "seed " << kSeed);
  constexpr uint32_t kWidth = 1024;
  RandomSequence random(kSeed);
  CountSketch sketch(kWidth, kWidth / 2);
  size_t num_high = 0;
  constexpr int kKeys = 200000;
  for (int i = 0; i < kKeys; ++i) num_high += sketch.Add(Mix(random()), 1) > 2;
  EXPECT_LE(static_cast<double>(num_high),
            std::exp(-CountSketch::kDepth) * kKeys);
  const CountSketch::Counts counts = sketch.Share();
  EXPECT_LT(*std::max_element(counts.counters->begin(), counts.counters->end()),
            100u);
}

}  // namespace
}  // namespace oarlock::sparse_table
