#include "data/order/static_split.h"

#include <algorithm>
#include <iostream>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "base/random.h"
#include "gtest/gtest.h"

namespace oarlock::data {
namespace {

constexpr SplitRule kRules[] = {SplitRule::kInterleaved, SplitRule::kContiguous,
                                SplitRule::kByFile};

std::string Text(const std::vector<PositionRun>& runs) {
  std::string text;
  for (const PositionRun& run : runs) {
    absl::StrAppend(&text, run.begin, "-", run.end, " ");
  }
  return text;
}

TEST(StaticSplitTest, EachRuleDividesAsItSays) {
  const std::vector<uint64_t> files = {5, 0, 4, 3};
  SplitOptions options = {
      .rule = SplitRule::kInterleaved, .num_readers = 2, .block_examples = 3};
  EXPECT_EQ(Text(SplitPositions(files, 1, options)[0]), "0-3 6-9 ");
  EXPECT_EQ(Text(SplitPositions(files, 1, options)[1]), "3-6 9-12 ");
  options.rule = SplitRule::kContiguous;
  options.num_readers = 5;
  EXPECT_EQ(Text(SplitPositions(files, 1, options)[1]), "3-6 ");
  EXPECT_EQ(Text(SplitPositions(files, 1, options)[4]), "10-12 ");
  options.rule = SplitRule::kByFile;
  options.num_readers = 2;
  EXPECT_EQ(Text(SplitPositions(files, 1, options)[0]), "0-5 5-9 ");
  EXPECT_EQ(Text(SplitPositions(files, 1, options)[1]), "9-12 ");
  EXPECT_EQ(Text(SplitPositions(files, 2, options)[1]), "9-12 21-24 ");
}

TEST(StaticSplitTest, EveryPositionIsOneReadersOrDropped) {
  constexpr uint64_t kSeed = 17;
  std::cout << "seed " << kSeed << "\n";
  RandomSequence random(kSeed);
  for (int i = 0; i < 500; ++i) {
    std::vector<uint64_t> files(random.Below(6));
    uint64_t size = 0;
    for (uint64_t& count : files) size += count = random.Below(40);
    const auto copies = static_cast<uint32_t>(1 + random.Below(3));
    SplitOptions options;
    options.rule = kRules[random.Below(3)];
    options.num_readers = 1 + random.Below(5);
    options.block_examples = 1 + random.Below(9);
    options.drop_tail = random.Below(2) == 0;
    const auto readers = SplitPositions(files, copies, options);
    ASSERT_EQ(readers.size(), options.num_readers);
    std::vector<int> times(size * copies);
    std::vector<uint64_t> sizes;
    for (const auto& runs : readers) {
      uint64_t taken = 0;
      for (const PositionRun& run : runs) {
        taken += run.end - run.begin;
        for (uint64_t p = run.begin; p < run.end; ++p) ++times[p];
      }
      sizes.push_back(taken);
    }
    for (const int n : times) ASSERT_LE(n, 1);
    if (options.drop_tail) {
      // All equally many full blocks.
      for (const uint64_t n : sizes) {
        ASSERT_EQ(n, sizes[0]);
        ASSERT_EQ(n % options.block_examples, 0u);
      }
    } else {
      ASSERT_EQ(std::count(times.begin(), times.end(), 1),
                static_cast<int>(size * copies));
    }
    if (options.rule == SplitRule::kContiguous && !options.drop_tail) {
      ASSERT_LE(*std::max_element(sizes.begin(), sizes.end()),
                *std::min_element(sizes.begin(), sizes.end()) + 1);
    }
  }
}

std::string Items(RunSplit& split) {
  std::string text;
  while (true) {
    const auto item = split.Next();
    if (!item->has_value()) return text;
    absl::StrAppend(&text, (*item)->source, ":", (*item)->begin, "-",
                    (*item)->end, (*item)->ends_batch ? "| " : " ");
  }
}

TEST(RunSplitTest, BlocksGoOverTheBordersOfRuns) {
  RunSplit split(RangesOf({{0, 3}, {10, 12}, {20, 27}}, 2), 4, nullptr);
  EXPECT_EQ(split.num_blocks(), 3u);
  EXPECT_EQ(Items(split), "2:0-3 2:10-11| 2:11-12 2:20-23| 2:23-27| ");
}

TEST(RunSplitTest, WhatIsCoveredIsLeftOutWithBlocksOfNothingElse) {
  ExampleIntervals covered;
  covered.Add({2, 0, 3});
  covered.Add({2, 10, 11});
  covered.Add({2, 21, 22});
  covered.Add({0, 23, 27});  // of another source
  RunSplit split(RangesOf({{0, 3}, {10, 12}, {20, 27}}, 2), 4, &covered);
  EXPECT_EQ(split.num_blocks(), 2u);
  EXPECT_EQ(Items(split), "2:11-12 2:20-21 2:22-23| 2:23-27| ");
}

}  // namespace
}  // namespace oarlock::data
