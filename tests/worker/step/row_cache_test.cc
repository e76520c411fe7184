#include "worker/step/row_cache.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <set>
#include <vector>

#include "base/random.h"
#include "nn/math_backend.h"

namespace oarlock::worker {
namespace {

using ::testing::ElementsAre;
constexpr uint32_t kNone = nn::CachedRows::kNone;

std::vector<Key> Keys(const std::vector<uint64_t>& numbers) {
  std::vector<Key> keys;
  for (const uint64_t number : numbers) keys.push_back(Key{number});
  return keys;
}

TEST(RowCacheTest, ARowIsPulledAgainWhenItIsTooOld) {
  RowCache cache(4, /*max_steps=*/2);
  RowPlan plan;
  std::vector<bool> pulled;
  for (int step = 0; step < 7; ++step) {
    cache.Plan(Keys({5}), &plan);
    pulled.push_back(!plan.missed_keys.empty());
    EXPECT_EQ(plan.step, static_cast<uint64_t>(step + 1));
    EXPECT_EQ(plan.oldest_step, static_cast<uint64_t>(step / 3 * 3 + 1));
  }
  EXPECT_THAT(pulled,
              ElementsAre(true, false, false, true, false, false, true));
}

TEST(RowCacheTest, RowsBeyondTheEntriesArePulledAndNotCached) {
  RowCache cache(2, /*max_steps=*/10);
  RowPlan plan;
  cache.Plan(Keys({1, 2, 3, 4}), &plan);
  EXPECT_EQ(plan.missed_keys, Keys({1, 2, 3, 4}));
  EXPECT_THAT(plan.miss_of_row, ElementsAre(0, 1, 2, 3));
  EXPECT_EQ(
      std::count(plan.entry_of_row.begin(), plan.entry_of_row.end(), kNone), 2);
  cache.Plan(Keys({4, 3, 2, 1}), &plan);
  EXPECT_EQ(plan.missed_keys, Keys({4, 3}));
  EXPECT_THAT(plan.miss_of_row, ElementsAre(0, 1, kNone, kNone));
  cache.Plan({}, &plan);
  EXPECT_TRUE(plan.missed_keys.empty());
}

TEST(RowCacheTest, HotRowsStayWhileColdOnesComeAndGo) {
  RowCache cache(64, /*max_steps=*/1000);
  RowPlan plan;
  uint64_t cold = 1000;
  for (int step = 0; step < 200; ++step) {
    std::vector<uint64_t> numbers;
    for (uint64_t hot = 0; hot < 16; ++hot) numbers.push_back(hot);
    for (int i = 0; i < 40; ++i) numbers.push_back(cold++);
    cache.Plan(Keys(numbers), &plan);
    if (step == 0) continue;
    EXPECT_EQ(plan.missed_keys.size(), 40u) << "step " << step;
  }
}

// Beside a model of the executor, whose entries hold the key and the step that
// a row was pulled for.
TEST(RowCacheTest, EveryRowIsThatOfItsKeyAndYoungEnough) {
  struct Row {
    Key key{};
    uint64_t step = 0;
  };
  for (const size_t cache_rows : {1, 7, 100, 5000}) {
    for (const uint64_t max_steps : {1, 4, 50}) {
      RandomSequence random(cache_rows * 100 + max_steps);
      RowCache cache(cache_rows, max_steps);
      std::vector<Row> entries(cache_rows);
      RowPlan plan;
      for (uint64_t step = 1; step <= 300; ++step) {
        std::set<uint64_t> distinct;
        for (uint64_t i = random.Below(200); i > 0; --i) {
          distinct.insert(
              static_cast<uint64_t>(std::exp(random.Uniform() * 8)));
        }
        const std::vector<Key> keys = Keys({distinct.begin(), distinct.end()});
        cache.Plan(keys, &plan);
        ASSERT_EQ(plan.step, step);
        ASSERT_EQ(plan.miss_of_row.size(), keys.size());
        ASSERT_EQ(plan.entry_of_row.size(), keys.size());
        std::set<uint32_t> used;
        uint64_t oldest = step;
        size_t num_missed = 0;
        for (size_t r = 0; r < keys.size(); ++r) {
          const uint32_t entry = plan.entry_of_row[r];
          if (entry != kNone) {
            ASSERT_LT(entry, cache_rows);
            ASSERT_TRUE(used.insert(entry).second);
          }
          if (plan.miss_of_row[r] != kNone) {
            ASSERT_EQ(plan.miss_of_row[r], num_missed++);
            ASSERT_EQ(plan.missed_keys[plan.miss_of_row[r]], keys[r]);
            if (entry != kNone) entries[entry] = {keys[r], step};
            continue;
          }
          ASSERT_NE(entry, kNone);
          ASSERT_EQ(entries[entry].key, keys[r]);
          ASSERT_LE(step - entries[entry].step, max_steps);
          oldest = std::min(oldest, entries[entry].step);
        }
        ASSERT_EQ(num_missed, plan.missed_keys.size());
        ASSERT_EQ(plan.oldest_step, oldest);
      }
    }
  }
}

TEST(PulledVersionsTest, AreThoseOfTheOldestRow) {
  PulledVersions pulls(/*max_steps=*/3);
  client::TableVersions versions = {10, 20};
  pulls.Record(1, 1, &versions);
  EXPECT_THAT(versions, ElementsAre(10, 20));
  // Reached one server alone.
  versions = {0, 25};
  pulls.Record(2, 2, &versions);
  EXPECT_THAT(versions, ElementsAre(0, 25));
  // Reached none.
  versions = {};
  pulls.Record(3, 2, &versions);
  EXPECT_THAT(versions, ElementsAre(0, 25));
  versions = {40, 50};
  pulls.Record(4, 1, &versions);
  EXPECT_THAT(versions, ElementsAre(10, 20));
  versions = {60, 70};
  pulls.Record(7, 4, &versions);
  EXPECT_THAT(versions, ElementsAre(40, 50));
}

}  // namespace
}  // namespace oarlock::worker
