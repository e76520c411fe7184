#include "data/order/example_order.h"

#include <algorithm>
#include <iostream>
#include <set>
#include <vector>

#include "base/random.h"
#include "gtest/gtest.h"

namespace oarlock::data {
namespace {

std::vector<uint64_t> All(const ExampleOrder& order) {
  OrderCursor cursor(&order);
  std::vector<uint64_t> examples;
  for (uint64_t p = 0; p < order.size(); ++p) examples.push_back(cursor.At(p));
  return examples;
}

OrderOptions Options(ShuffleRule shuffle, uint64_t window) {
  OrderOptions options;
  options.shuffle = shuffle;
  options.window_examples = window;
  return options;
}

TEST(ExampleOrderTest, EveryExampleStandsThereAsOftenAsItIsRepeated) {
  for (const ShuffleRule rule :
       {ShuffleRule::kNone, ShuffleRule::kLocal, ShuffleRule::kGlobal}) {
    for (const uint64_t window : {1, 7, 64, 100, 1000}) {
      for (const uint64_t size : {0, 1, 63, 64, 65, 1000, 1031}) {
        for (const uint32_t copies : {1, 3}) {
          SCOPED_TRACE(testing::Message() << static_cast<int>(rule) << " "
                                          << window << " " << size);
          OrderOptions options = Options(rule, window);
          options.num_repeats = copies;
          const ExampleOrder order(size, options);
          std::vector<uint64_t> examples = All(order);
          std::sort(examples.begin(), examples.end());
          ASSERT_EQ(examples.size(), size * copies);
          for (uint64_t i = 0; i < examples.size(); ++i) {
            ASSERT_EQ(examples[i], i / copies);
          }
        }
      }
    }
  }
}

TEST(ExampleOrderTest, AskedForInAnyOrderItIsTheSame) {
  const ExampleOrder order(5000, Options(ShuffleRule::kGlobal, 300));
  const std::vector<uint64_t> all = All(order);
  OrderCursor cursor(&order);
  RandomSequence random(3);
  for (int i = 0; i < 1000; ++i) {
    const uint64_t p = random.Below(5000);
    ASSERT_EQ(cursor.At(p), all[p]);
  }
}

TEST(ExampleOrderTest, SeedAndEpochMakeOrdersOfTheirOwn) {
  OrderOptions options = Options(ShuffleRule::kGlobal, 256);
  const std::vector<uint64_t> one = All(ExampleOrder(2000, options));
  EXPECT_EQ(All(ExampleOrder(2000, options)), one);
  options.epoch = 1;
  const std::vector<uint64_t> other = All(ExampleOrder(2000, options));
  EXPECT_NE(other, one);
  options.epoch = 0;
  options.seed = 2;
  EXPECT_NE(All(ExampleOrder(2000, options)), one);
}

TEST(ExampleOrderTest, AGlobalWindowHasExamplesOfAllOfTheData) {
  constexpr uint64_t kSize = 64 * 1000;
  constexpr uint64_t kWindow = 4096;
  const std::vector<uint64_t> all =
      All(ExampleOrder(kSize, Options(ShuffleRule::kGlobal, kWindow)));
  for (uint64_t begin = 0; begin + kWindow <= kSize; begin += kWindow) {
    // The mean of 64 units: its spread is kSize / sqrt(12 * 64).
    double sum = 0;
    std::set<uint64_t> units;
    for (uint64_t p = begin; p < begin + kWindow; ++p) {
      sum += static_cast<double>(all[p]);
      units.insert(all[p] / 64);
    }
    EXPECT_EQ(units.size(), kWindow / 64);
    EXPECT_NEAR(sum / kWindow, kSize / 2.0, 5 * kSize / 27.7);
  }
}

TEST(ExampleOrderTest, NeighboursDoNotStayNeighbours) {
  for (const ShuffleRule rule : {ShuffleRule::kLocal, ShuffleRule::kGlobal}) {
    const std::vector<uint64_t> all =
        All(ExampleOrder(20'000, Options(rule, 1000)));
    int pairs = 0;
    for (size_t i = 1; i < all.size(); ++i) pairs += all[i] == all[i - 1] + 1;
    // Of a random order about one; within windows of 1,000 a thousandth.
    EXPECT_LT(pairs, 60);
  }
}

TEST(ExampleOrderTest, ALocalOrderMovesExamplesWithinAboutAWindow) {
  const std::vector<uint64_t> all =
      All(ExampleOrder(10'000, Options(ShuffleRule::kLocal, 1000)));
  for (size_t begin = 0; begin < all.size(); begin += 1000) {
    const auto [low, high] =
        std::minmax_element(&all[begin], &all[begin] + 1000);
    EXPECT_LT(*high - *low, 1000u);
  }
}

TEST(ExampleOrderTest, AShareIsShuffledAmongItself) {
  OrderOptions options = Options(ShuffleRule::kGlobal, 100);
  options.share = std::make_shared<const PositionRuns>(
      std::vector<PositionRun>{{700, 900}, {10, 60}, {300, 301}});
  const ExampleOrder order(1000, options);
  OrderCursor cursor(&order);
  std::vector<uint64_t> positions;
  std::vector<uint64_t> examples;
  for (const PositionRun& run : options.share->runs()) {
    for (uint64_t p = run.begin; p < run.end; ++p) {
      positions.push_back(p);
      examples.push_back(cursor.At(p));
    }
  }
  EXPECT_NE(examples, positions);
  std::sort(examples.begin(), examples.end());
  EXPECT_EQ(examples, positions);
}

TEST(PositionRunsTest, OrdinalsAndPositionsAreInverse) {
  const PositionRuns runs({{5, 9}, {9, 11}, {20, 21}, {0, 2}, {30, 30}});
  EXPECT_EQ(runs.runs(), (std::vector<PositionRun>{{0, 2}, {5, 11}, {20, 21}}));
  ASSERT_EQ(runs.size(), 9u);
  const std::vector<uint64_t> positions = {0, 1, 5, 6, 7, 8, 9, 10, 20};
  for (uint64_t o = 0; o < 9; ++o) {
    EXPECT_EQ(runs.PositionOf(o), positions[o]);
    EXPECT_EQ(runs.OrdinalOf(positions[o]), o);
  }
}

}  // namespace
}  // namespace oarlock::data
