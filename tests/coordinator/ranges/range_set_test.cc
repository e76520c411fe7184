#include "coordinator/ranges/range_set.h"

#include <cstdint>
#include <string>
#include <vector>

#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace oarlock::coordinator {
namespace {

using ::testing::IsEmpty;

v1::DataRange Range(uint32_t source, uint64_t begin, uint64_t end,
                    uint64_t byte_offset = 0, uint64_t skip_lines = 0) {
  v1::DataRange range;
  range.set_source(source);
  range.set_begin(begin);
  range.set_end(end);
  range.set_byte_offset(byte_offset);
  range.set_skip_lines(skip_lines);
  return range;
}

std::vector<std::string> Strings(const std::vector<v1::DataRange>& ranges) {
  std::vector<std::string> strings;
  for (const v1::DataRange& range : ranges) {
    strings.push_back(range.ShortDebugString());
  }
  return strings;
}

TEST(RangeSetTest, WhatIsMissingSaysWhereItsLinesAre) {
  RangeSet set;
  set.Add(Range(1, 110, 120));
  set.Add(Range(0, 0, 1000));
  EXPECT_EQ(
      Strings(set.Missing(Range(1, 100, 150, /*byte_offset=*/7000,
                                /*skip_lines=*/4))),
      Strings({Range(1, 100, 110, 7000, 4), Range(1, 120, 150, 7000, 24)}));
}

TEST(RangeSetTest, NothingIsMissingOfWhatIsCovered) {
  RangeSet set;
  set.Add(Range(3, 0, 50));
  set.Add(Range(3, 50, 100));
  EXPECT_THAT(set.Missing(Range(3, 10, 90)), IsEmpty());
  EXPECT_EQ(Strings(set.ranges()), Strings({Range(3, 0, 100)}));
}

TEST(RangeSetTest, WhatIsCommonAndWhatIsMissingMakeUpTheRange) {
  RangeSet set;
  set.Add(Range(1, 90, 110));
  set.Add(Range(1, 120, 130));
  EXPECT_EQ(
      Strings(set.Common(Range(1, 100, 125, /*byte_offset=*/7000,
                               /*skip_lines=*/4))),
      Strings({Range(1, 100, 110, 7000, 4), Range(1, 120, 125, 7000, 24)}));
  EXPECT_EQ(Strings(set.Common(Range(1, 125, 0))),
            Strings({Range(1, 125, 130)}));
  EXPECT_EQ(Strings(set.Common(Range(1, 95, 105))),
            Strings({Range(1, 95, 105)}));
  EXPECT_THAT(set.Common(Range(1, 110, 120)), IsEmpty());
  EXPECT_THAT(set.Common(Range(2, 100, 120)), IsEmpty());
}

TEST(RangeSetTest, ARangeWithoutAnEndKeepsItsRest) {
  RangeSet set;
  set.Add(Range(0, 0, 64));
  set.Add(Range(0, 70, 80));
  EXPECT_EQ(Strings(set.Missing(Range(0, 0, 0))),
            Strings({Range(0, 64, 70, 0, 64), Range(0, 80, 0, 0, 80)}));
}

TEST(RangeSetTest, AnotherSourceIsAnotherSet) {
  RangeSet set;
  set.Add(Range(0, 0, 64));
  EXPECT_EQ(Strings(set.Missing(Range(2, 5, 9, 1, 2))),
            Strings({Range(2, 5, 9, 1, 2)}));
}

}  // namespace
}  // namespace oarlock::coordinator
