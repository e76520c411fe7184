#include "data/order/source_index.h"

#include <algorithm>
#include <cmath>
#include <iostream>
#include <mutex>
#include <set>
#include <string>
#include <thread>
#include <vector>

#include "absl/strings/str_cat.h"
#include "base/random.h"
#include "data/order/example_reader.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/data/test_files.h"

namespace oarlock::data {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

std::string Text(const DataRange& item) {
  return absl::StrCat(item.source, ":", item.begin, "-", item.end, "@",
                      item.byte_offset, "+", item.skip_lines);
}

std::vector<std::string> Texts(const std::vector<DataRange>& items) {
  std::vector<std::string> texts;
  for (const DataRange& item : items) texts.push_back(Text(item));
  return texts;
}

TEST(SourceIndexTest, CountsLinesAndFindsWhereBlocksStart) {
  TestFolder folder;
  const std::vector<std::string> files = {folder.Write("a", "0\n22\n\n4\n5"),
                                          folder.Write("b", ""),
                                          folder.Write("c", "0\n1\n")};
  const auto index = BuildSourceIndex(files, 2, 3);
  ASSERT_TRUE(index.ok()) << index.status();
  EXPECT_EQ(index->total_examples(), 7u);
  EXPECT_EQ(index->total_bytes(), 13u);
  EXPECT_EQ(index->files()[0].num_examples, 5u);
  EXPECT_EQ(index->files()[1].num_examples, 0u);
  EXPECT_EQ(index->files()[2].num_examples, 2u);
  EXPECT_THAT(Texts(index->Items()),
              ElementsAre("0:0-2@0+0", "0:2-4@5+0", "0:4-5@8+0", "2:0-2@0+0"));
  EXPECT_THAT(Texts(index->ItemsOf(3, 6)),
              ElementsAre("0:3-5@5+1", "2:0-1@0+0"));
  EXPECT_THAT(Texts(index->ItemsOf(5, 7)), ElementsAre("2:0-2@0+0"));
  EXPECT_THAT(index->ItemsOf(7, 7), IsEmpty());
}

TEST(SourceIndexTest, AFileOfAByteOrderMarkAloneIsEmpty) {
  TestFolder folder;
  const auto index = BuildSourceIndex({folder.Write("a", "\xef\xbb\xbf"),
                                       folder.Write("b",
                                                    "\xef\xbb\xbf"
                                                    "1\n"),
                                       folder.Write("c", "\xef\xbb\xbf\n")},
                                      2, 3);
  ASSERT_TRUE(index.ok()) << index.status();
  EXPECT_EQ(index->files()[0].num_examples, 0u);
  EXPECT_EQ(index->files()[1].num_examples, 1u);
  EXPECT_EQ(index->files()[2].num_examples, 1u);
}

// At most 2^20 ranges can be defined for an epoch.
TEST(SourceIndexTest, AnEpochHasFewRangesWhateverItsSize) {
  for (const uint64_t examples :
       {uint64_t{100'000'000'000}, uint64_t{100'000'000'000'000}}) {
    uint64_t ranges = 0;
    for (uint64_t left = examples / 2048; left > 0;) {
      const uint64_t blocks = BlocksOfRange(left);
      ASSERT_GE(blocks, 1u);
      ASSERT_LE(blocks, left);
      left -= blocks;
      ++ranges;
    }
    EXPECT_LT(ranges, uint64_t{1} << 20) << examples;
  }
  EXPECT_EQ(BlocksOfRange(131'071), 1u);
  EXPECT_EQ(BlocksOfRange(131'072), 2u);
}

TEST(SourceIndexTest, LongRangesCoverEveryFileOnce) {
  constexpr uint64_t kBlock = 10;
  std::vector<SourceIndex::File> files(3);
  for (size_t i = 0; i < files.size(); ++i) {
    files[i].num_examples = (i == 1 ? 7 : 2'000'003);
    for (uint64_t b = 0; b * kBlock < files[i].num_examples; ++b) {
      files[i].block_offsets.push_back(b * 100);
    }
  }
  const SourceIndex index(kBlock, files);
  const std::vector<DataRange> items = index.Items();
  EXPECT_LT(items.size(), 250'000u);
  std::vector<uint64_t> covered(files.size());
  uint64_t last_length = ~uint64_t{0};
  for (const DataRange& item : items) {
    ASSERT_EQ(item.begin, covered[item.source]);
    ASSERT_EQ(item.begin % kBlock, 0u);
    ASSERT_EQ(item.byte_offset, item.begin / kBlock * 100);
    covered[item.source] = item.end;
    if (item.end == files[item.source].num_examples) continue;
    ASSERT_LE(item.end - item.begin, last_length);
    last_length = item.end - item.begin;
  }
  for (size_t i = 0; i < files.size(); ++i) {
    EXPECT_EQ(covered[i], files[i].num_examples) << i;
  }
}

TEST(SourceIndexTest, LongFilesAgreeWithANaiveCount) {
  std::cout << "seed 17\n";
  RandomSequence random(17);
  TestFolder folder;
  std::vector<std::string> files;
  std::vector<std::vector<uint64_t>> starts;
  for (int f = 0; f < 4; ++f) {
    std::string text;
    starts.emplace_back();
    for (int i = 0; i < 30'000; ++i) {
      starts.back().push_back(text.size());
      text += std::string(random.Below(200), 'x') + "\n";
    }
    files.push_back(folder.Write(absl::StrCat("f", f), text));
  }
  const uint64_t block = 7;
  const auto index = BuildSourceIndex(files, block, 2);
  ASSERT_TRUE(index.ok()) << index.status();
  for (size_t f = 0; f < files.size(); ++f) {
    const SourceIndex::File& file = index->files()[f];
    ASSERT_EQ(file.num_examples, starts[f].size());
    ASSERT_EQ(file.block_offsets.size(), (starts[f].size() + 6) / 7);
    for (size_t b = 0; b < file.block_offsets.size(); ++b) {
      ASSERT_EQ(file.block_offsets[b], starts[f][b * block]);
    }
  }
}

TEST(SourceIndexTest, MissingOrBinaryFileIsAnError) {
  TestFolder folder;
  const std::string good = folder.Write("good", "a\n");
  EXPECT_EQ(BuildSourceIndex({good, folder.Path("no")}, 1, 2).status().code(),
            absl::StatusCode::kNotFound);
  const std::string binary = folder.Write("binary", std::string(10, '\0'));
  EXPECT_THAT(BuildSourceIndex({good, binary}, 1, 1).status().message(),
              HasSubstr("binary is not text"));
}

TEST(SharedListTest, EveryItemGoesToOneReader) {
  constexpr size_t kItems = 1000;
  std::vector<DataRange> items(kItems);
  for (size_t i = 0; i < kItems; ++i) items[i].begin = i;
  SharedList list(items);
  std::mutex mutex;
  std::multiset<uint64_t> seen;
  const auto take_all = [&] {
    while (true) {
      const auto item = *list.Next();
      if (!item.has_value()) return;
      std::lock_guard lock(mutex);
      seen.insert(item->begin);
    }
  };
  std::thread other(take_all);
  take_all();
  other.join();
  EXPECT_EQ(seen.size(), kItems);
  EXPECT_EQ(std::set(seen.begin(), seen.end()).size(), kItems);
}

// Which lines each batch of reader `reader` of `num_readers` holds; lines that
// are divisible by `bad_every` are malformed.
class InterleavedSplitTest : public ::testing::Test {
 protected:
  void WriteFiles(const std::vector<int>& sizes, int bad_every) {
    int number = 0;
    for (const int size : sizes) {
      std::string text;
      for (int i = 0; i < size; ++i, ++number) {
        const bool bad = bad_every > 0 && number % bad_every == 1;
        text += (bad ? "bad" : NumberedLine(number)) + "\n";
      }
      files_.push_back(
          folder_.Write(absl::StrCat("part-", files_.size()), text));
    }
  }

  std::vector<std::vector<int>> Batches(const SourceIndex& index,
                                        InterleavedSplit::Options options) {
    InterleavedSplit split(&index, options);
    BadLines bad_lines;
    BatchReader reader(DataOptions{.bad_lines_max = 1000}, files_, &split,
                       &bad_lines);
    std::vector<std::vector<int>> batches;
    Batch batch;
    size_t num_examples = 0;
    while (*reader.Next(options.block_examples, &batch)) {
      batches.emplace_back();
      num_examples += batch.num_examples;
      for (size_t i = 0; i < batch.num_examples; ++i) {
        batches.back().push_back(
            static_cast<int>(std::lround(std::expm1(batch.dense[i * 13]))));
      }
    }
    if (options.covered == nullptr) {
      EXPECT_EQ(num_examples + static_cast<size_t>(bad_lines.count()),
                split.num_examples());
      EXPECT_EQ(batches.size(), split.num_blocks());
    }
    return batches;
  }

  // Round after round, the examples of all readers in reader order.
  std::vector<std::vector<int>> Rounds(uint64_t readers, uint64_t block,
                                       bool drop_tail) {
    const auto index = BuildSourceIndex(files_, 10, 1);
    EXPECT_TRUE(index.ok()) << index.status();
    std::vector<std::vector<int>> rounds;
    for (uint64_t i = 0; i < readers; ++i) {
      const auto batches = Batches(*index, {.block_examples = block,
                                            .reader_index = i,
                                            .num_readers = readers,
                                            .drop_tail = drop_tail});
      rounds.resize(std::max(rounds.size(), batches.size()));
      for (size_t r = 0; r < batches.size(); ++r) {
        rounds[r].insert(rounds[r].end(), batches[r].begin(), batches[r].end());
      }
    }
    return rounds;
  }

  TestFolder folder_;
  std::vector<std::string> files_;
};

TEST_F(InterleavedSplitTest,
       TwoReadersOfAHundredSeeTheRoundsOfOneOfTwoHundred) {
  WriteFiles({250, 0, 3, 499, 371}, 0);
  const auto rounds = Rounds(2, 100, false);
  EXPECT_EQ(rounds, Rounds(1, 200, false));
  EXPECT_EQ(rounds, Rounds(4, 50, false));
  ASSERT_EQ(rounds.size(), 6u);
  int number = 0;
  for (const auto& round : rounds) {
    for (const int x : round) EXPECT_EQ(x, number++);
  }
  EXPECT_EQ(number, 1123);
}

TEST_F(InterleavedSplitTest, MalformedLinesShiftNoRound) {
  WriteFiles({250, 350, 23}, 17);
  EXPECT_EQ(Rounds(2, 100, false), Rounds(1, 200, false));
  EXPECT_EQ(Rounds(5, 40, true), Rounds(1, 200, true));
}

TEST_F(InterleavedSplitTest, DropTailLeavesOnlyFullRounds) {
  WriteFiles({250, 350, 23}, 0);
  const auto rounds = Rounds(2, 100, true);
  ASSERT_EQ(rounds.size(), 3u);
  for (const auto& round : rounds) EXPECT_EQ(round.size(), 200u);
  EXPECT_EQ(rounds, Rounds(1, 200, true));
  EXPECT_THAT(Rounds(7, 100, true), IsEmpty());
}

// An epoch that goes on: readers get the rest of their blocks, and of no block
// two batches.
TEST_F(InterleavedSplitTest, CoveredExamplesAreLeftOut) {
  WriteFiles({250, 0, 3, 499, 371}, 0);
  const auto index = BuildSourceIndex(files_, 10, 1);
  ASSERT_TRUE(index.ok()) << index.status();
  const std::vector<uint64_t> sizes = {250, 0, 3, 499, 371};
  constexpr int kAll = 1123;
  for (uint64_t seed = 1; seed <= 20; ++seed) {
    SCOPED_TRACE(absl::StrCat("seed ", seed));
    RandomSequence random(seed);
    ExampleIntervals covered;
    std::vector<bool> is_covered(kAll, false);
    for (uint64_t n = random.Below(12); n > 0; --n) {
      const auto source = static_cast<uint32_t>(random.Below(sizes.size()));
      if (sizes[source] == 0) continue;
      ExampleRange range{source, random.Below(sizes[source]), 0};
      range.end = std::min(sizes[source], range.begin + random.Below(300));
      covered.Add(range);
      uint64_t first = 0;
      for (uint32_t s = 0; s < source; ++s) first += sizes[s];
      for (uint64_t i = range.begin; i < range.end; ++i) {
        is_covered[first + i] = true;
      }
    }
    const uint64_t readers = 1 + random.Below(4);
    const uint64_t block = 10 + random.Below(90);
    for (uint64_t reader = 0; reader < readers; ++reader) {
      std::vector<std::vector<int>> expected;
      for (uint64_t b = reader; b * block < kAll; b += readers) {
        std::vector<int> batch;
        for (uint64_t i = b * block;
             i < std::min<uint64_t>(kAll, (b + 1) * block); ++i) {
          if (!is_covered[i]) batch.push_back(static_cast<int>(i));
        }
        if (!batch.empty()) expected.push_back(std::move(batch));
      }
      const InterleavedSplit::Options options{.block_examples = block,
                                              .reader_index = reader,
                                              .num_readers = readers,
                                              .covered = &covered};
      EXPECT_EQ(Batches(*index, options), expected);
      EXPECT_EQ(InterleavedSplit(&*index, options).num_blocks(),
                expected.size());
    }
  }
}

}  // namespace
}  // namespace oarlock::data
