#include "data/rows/group_order.h"

#include <gtest/gtest.h>

#include <map>
#include <numeric>
#include <set>

#include "base/random.h"

namespace oarlock::data {
namespace {

GroupOrderOptions Options(ShuffleRule shuffle, uint32_t workers,
                          uint32_t repeats = 1) {
  GroupOrderOptions options;
  options.shuffle = shuffle;
  options.num_workers = workers;
  options.num_repeats = repeats;
  options.window_units = 3;
  options.seed = 7;
  return options;
}

std::vector<uint32_t> UnitsOf(const GroupOrder& order, uint32_t worker) {
  std::vector<uint32_t> units;
  for (const GroupOrder::Window& window : order.windows()) {
    if (window.worker != worker) continue;
    units.insert(units.end(), window.units.begin(), window.units.end());
  }
  return units;
}

TEST(GroupOrderTest, WithoutAShuffleUnitsGoToWorkersInTurn) {
  const GroupOrder order({5, 1, 4, 2, 3}, Options(ShuffleRule::kNone, 2));
  EXPECT_EQ(UnitsOf(order, 0), (std::vector<uint32_t>{0, 2, 4}));
  EXPECT_EQ(UnitsOf(order, 1), (std::vector<uint32_t>{1, 3}));
  EXPECT_EQ(order.size(), 15u);
  EXPECT_EQ(order.PositionsOf(0).begin, 0u);
  EXPECT_EQ(order.PositionsOf(0).end, 12u);
  EXPECT_EQ(order.PositionsOf(1).begin, 12u);
  EXPECT_EQ(order.PositionsOf(1).end, 15u);
  EXPECT_TRUE(order.RowsOf(0).empty());
}

TEST(GroupOrderTest, AWorkerWithoutUnitsHasNoPositions) {
  const GroupOrder order({5}, Options(ShuffleRule::kGlobal, 3));
  EXPECT_EQ(order.PositionsOf(1).end - order.PositionsOf(1).begin, 0u);
  EXPECT_EQ(order.size(), 5u);
}

TEST(GroupOrderTest, LocalKeepsUnitsWithTheirWorkerAndGlobalDoesNot) {
  const std::vector<uint64_t> rows(40, 2);
  const GroupOrder local(rows, Options(ShuffleRule::kLocal, 4));
  for (const uint32_t unit : UnitsOf(local, 1)) EXPECT_EQ(unit % 4, 1u);
  EXPECT_NE(UnitsOf(local, 1),
            UnitsOf(GroupOrder(rows, Options(ShuffleRule::kNone, 4)), 1));
  const GroupOrder global(rows, Options(ShuffleRule::kGlobal, 4));
  bool moved = false;
  for (const uint32_t unit : UnitsOf(global, 1)) moved |= unit % 4 != 1;
  EXPECT_TRUE(moved);
}

TEST(GroupOrderTest, TheOrderIsThatOfSeedAndEpoch) {
  const std::vector<uint64_t> rows(40, 2);
  GroupOrderOptions options = Options(ShuffleRule::kGlobal, 2);
  const auto first = UnitsOf(GroupOrder(rows, options), 0);
  EXPECT_EQ(UnitsOf(GroupOrder(rows, options), 0), first);
  EXPECT_EQ(GroupOrder(rows, options).RowsOf(1),
            GroupOrder(rows, options).RowsOf(1));
  options.epoch = 1;
  EXPECT_NE(UnitsOf(GroupOrder(rows, options), 0), first);
  options.epoch = 0;
  options.seed = 8;
  EXPECT_NE(UnitsOf(GroupOrder(rows, options), 0), first);
}

// Drawn shapes: every row of every copy stands at one position of one worker.
TEST(GroupOrderTest, EveryRowOfEveryCopyOnce) {
  RandomSequence random(20261129);
  for (int trial = 0; trial < 200; ++trial) {
    std::vector<uint64_t> rows(1 + random.Below(30));
    for (uint64_t& each : rows) each = 1 + random.Below(9);
    GroupOrderOptions options;
    options.shuffle = static_cast<ShuffleRule>(random.Below(3));
    options.num_workers = 1 + static_cast<uint32_t>(random.Below(5));
    options.num_repeats = 1 + static_cast<uint32_t>(random.Below(3));
    options.window_units = 1 + static_cast<uint32_t>(random.Below(6));
    options.seed = random();
    const GroupOrder order(rows, options);
    const uint64_t total = std::accumulate(rows.begin(), rows.end(), 0ul);
    ASSERT_EQ(order.size(), total * options.num_repeats);
    std::map<std::pair<uint32_t, uint64_t>, uint32_t> seen;
    uint64_t position = 0;
    for (uint32_t w = 0; w < order.windows().size(); ++w) {
      const GroupOrder::Window& window = order.windows()[w];
      ASSERT_EQ(window.begin, position);
      ASSERT_EQ(order.WindowOf(position), w);
      ASSERT_LE(window.units.size(), options.window_units);
      std::vector<std::pair<uint32_t, uint64_t>> all;
      for (const uint32_t unit : window.units) {
        for (uint64_t row = 0; row < rows[unit]; ++row) {
          all.push_back({unit, row});
        }
      }
      const std::vector<uint32_t> drawn = order.RowsOf(w);
      if (options.shuffle == ShuffleRule::kNone) {
        ASSERT_TRUE(drawn.empty());
      } else {
        ASSERT_EQ(drawn.size(), all.size());
        ASSERT_EQ(std::set<uint32_t>(drawn.begin(), drawn.end()).size(),
                  all.size());
      }
      for (const auto& row : all) ++seen[row];
      position = window.end;
    }
    ASSERT_EQ(seen.size(), total);
    for (const auto& [row, count] : seen) {
      ASSERT_EQ(count, options.num_repeats);
    }
  }
}

}  // namespace
}  // namespace oarlock::data
