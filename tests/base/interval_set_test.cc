#include "base/interval_set.h"

#include <cstdint>
#include <random>
#include <set>
#include <vector>

#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace oarlock {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;
using Interval = IntervalSet::Interval;

TEST(IntervalSetTest, AdjacentRunsBecomeOne) {
  IntervalSet set;
  set.Add(10, 20);
  set.Add(30, 40);
  set.Add(20, 30);
  EXPECT_THAT(set.intervals(), ElementsAre(Interval{10, 40}));
}

TEST(IntervalSetTest, AnEmptyRunChangesNothing) {
  IntervalSet set;
  set.Add(5, 5);
  EXPECT_TRUE(set.empty());
  EXPECT_THAT(set.Missing(0, 0), IsEmpty());
  EXPECT_THAT(set.Missing(0, 3), ElementsAre(Interval{0, 3}));
}

TEST(IntervalSetTest, AgreesWithASetOfNumbers) {
  constexpr uint64_t kSize = 60;
  for (uint32_t seed = 1; seed <= 200; ++seed) {
    SCOPED_TRACE(seed);
    std::mt19937 random(seed);
    IntervalSet set;
    std::set<uint64_t> model;
    for (int i = 0; i < 12; ++i) {
      const uint64_t begin = random() % kSize;
      const uint64_t end = begin + random() % 9;
      set.Add(begin, end);
      for (uint64_t n = begin; n < end; ++n) model.insert(n);

      const std::vector<Interval> runs = set.intervals();
      std::set<uint64_t> listed;
      for (size_t r = 0; r < runs.size(); ++r) {
        ASSERT_LT(runs[r].begin, runs[r].end);
        if (r > 0) {
          ASSERT_GT(runs[r].begin, runs[r - 1].end);
        }
        for (uint64_t n = runs[r].begin; n < runs[r].end; ++n) listed.insert(n);
      }
      ASSERT_EQ(listed, model);

      const uint64_t from = random() % kSize;
      const uint64_t to = from + random() % kSize;
      std::set<uint64_t> missing;
      for (const Interval& run : set.Missing(from, to)) {
        for (uint64_t n = run.begin; n < run.end; ++n) missing.insert(n);
      }
      std::set<uint64_t> wanted;
      for (uint64_t n = from; n < to; ++n) {
        if (!model.contains(n)) wanted.insert(n);
      }
      ASSERT_EQ(missing, wanted);
    }
  }
}

}  // namespace
}  // namespace oarlock
