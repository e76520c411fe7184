#include "data/order/example_intervals.h"

#include <gtest/gtest.h>

#include <cstdint>
#include <set>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "base/random.h"

namespace oarlock::data {
namespace {

using Examples = std::set<std::pair<uint32_t, uint64_t>>;

constexpr uint32_t kSources = 3;
constexpr uint64_t kLines = 40;

Examples ExamplesOf(const std::vector<ExampleRange>& ranges) {
  Examples examples;
  for (const ExampleRange& range : ranges) {
    for (uint64_t i = range.begin; i < range.end; ++i) {
      EXPECT_TRUE(examples.emplace(range.source, i).second);
    }
  }
  return examples;
}

// Ascending, with something between two of them.
void ExpectApart(const std::vector<ExampleRange>& ranges) {
  for (size_t i = 0; i < ranges.size(); ++i) {
    EXPECT_LT(ranges[i].begin, ranges[i].end);
    if (i == 0) continue;
    EXPECT_LT(std::pair(ranges[i - 1].source, ranges[i - 1].end),
              std::pair(ranges[i].source, ranges[i].begin));
  }
}

ExampleRange RandomRange(RandomSequence& random) {
  ExampleRange range;
  range.source = static_cast<uint32_t>(random.Below(kSources));
  range.begin = random.Below(kLines);
  range.end = range.begin + random.Below(8);
  return range;
}

TEST(ExampleIntervalsTest, BatchesThatLieSideBySideBecomeOneRun) {
  ExampleIntervals intervals;
  EXPECT_TRUE(intervals.empty());
  intervals.Add({1, 20, 30});
  intervals.Add({1, 0, 10});
  intervals.Add({2, 10, 20});
  intervals.Add({1, 10, 20});
  ASSERT_EQ(intervals.ranges().size(), 2u);
  EXPECT_EQ(intervals.ranges()[0].begin, 0u);
  EXPECT_EQ(intervals.ranges()[0].end, 30u);
  EXPECT_EQ(intervals.ranges()[1].source, 2u);
}

TEST(ExampleIntervalsTest, AgreesWithASetOfExamples) {
  for (uint64_t seed = 1; seed <= 200; ++seed) {
    SCOPED_TRACE(absl::StrCat("seed ", seed));
    RandomSequence random(seed);
    ExampleIntervals intervals;
    Examples model;
    for (int i = 0; i < 25; ++i) {
      const ExampleRange range = RandomRange(random);
      if (random.Below(4) == 0) {
        ExampleIntervals other;
        other.Add(range);
        intervals.Merge(other);
      } else {
        intervals.Add(range);
      }
      for (uint64_t line = range.begin; line < range.end; ++line) {
        model.emplace(range.source, line);
      }
      ASSERT_EQ(intervals.empty(), model.empty());
      const std::vector<ExampleRange> ranges = intervals.ranges();
      ExpectApart(ranges);
      ASSERT_EQ(ExamplesOf(ranges), model);

      const ExampleRange asked = RandomRange(random);
      Examples missing;
      for (uint64_t line = asked.begin; line < asked.end; ++line) {
        if (model.count({asked.source, line}) == 0) {
          missing.emplace(asked.source, line);
        }
      }
      ExpectApart(intervals.Missing(asked));
      ASSERT_EQ(ExamplesOf(intervals.Missing(asked)), missing);
    }
  }
}

}  // namespace
}  // namespace oarlock::data
