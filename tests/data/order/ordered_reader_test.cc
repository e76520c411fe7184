#include "data/order/ordered_reader.h"

#include <cmath>
#include <iostream>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "base/random.h"
#include "data/order/memory_dataset.h"
#include "data/order/source_index.h"
#include "data/parse/bad_lines.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/data/reader/compressing.h"
#include "tests/data/test_files.h"

namespace oarlock::data {
namespace {

using ::testing::HasSubstr;

constexpr int kMalformed = -1;

// Files of numbered lines, some malformed, and orders over them.
class OrderedReaderTest : public ::testing::Test {
 protected:
  // Number i is line i of the concatenation, or kMalformed.
  void WriteFiles(const std::vector<int>& sizes, bool compressed) {
    RandomSequence random(1);
    for (size_t f = 0; f < sizes.size(); ++f) {
      std::string text;
      for (int i = 0; i < sizes[f]; ++i) {
        const bool bad = random.Below(20) == 0;
        text +=
            bad ? "malformed" : NumberedLine(static_cast<int>(numbers_.size()));
        text += i + 1 == sizes[f] ? "" : "\n";
        numbers_.push_back(bad ? kMalformed
                               : static_cast<int>(numbers_.size()));
      }
      files_.push_back(compressed && f % 2 == 1
                           ? folder_.Write(absl::StrCat(f, ".zst"), Zstd(text))
                           : folder_.Write(absl::StrCat(f), text));
    }
    auto index = BuildSourceIndex(files_, 64, 2);
    ASSERT_TRUE(index.ok()) << index.status();
    index_ = std::make_unique<SourceIndex>(*std::move(index));
    ASSERT_EQ(index_->total_examples(), numbers_.size());
    options_.bad_lines_max = 1'000'000;
  }

  std::shared_ptr<const ExampleOrder> Order(ShuffleRule rule, uint64_t window) {
    OrderOptions options;
    options.shuffle = rule;
    options.window_examples = window;
    return std::make_shared<const ExampleOrder>(numbers_.size(), options);
  }

  // Reads `items` in batches and compares each with what the order says.
  void ExpectRead(OrderedReader& reader, const ExampleOrder& order,
                  size_t batch_size) {
    OrderCursor cursor(&order);
    Batch batch;
    while (true) {
      const auto more = reader.Next(batch_size, &batch);
      ASSERT_TRUE(more.ok()) << more.status();
      if (!*more) break;
      std::vector<int> expected;
      for (const ExampleRange& range : batch.ranges) {
        for (uint64_t p = range.begin; p < range.end; ++p) {
          ++seen_[p];
          const int number = numbers_[cursor.At(p)];
          if (number != kMalformed) expected.push_back(number);
        }
      }
      std::vector<int> numbers;
      for (size_t i = 0; i < batch.num_examples; ++i) {
        numbers.push_back(
            static_cast<int>(std::lround(std::expm1(batch.dense[i * 13]))));
        ASSERT_EQ(batch.labels[i], static_cast<float>(numbers.back() % 2));
      }
      ASSERT_EQ(numbers, expected);
      ASSERT_EQ(batch.keys.size(), batch.num_examples * 26);
    }
  }

  TestFolder folder_;
  std::vector<std::string> files_;
  std::vector<int> numbers_;
  std::unique_ptr<SourceIndex> index_;
  DataOptions options_;
  BadLines bad_lines_;
  std::vector<int> seen_;
};

std::vector<DataRange> Cut(uint64_t size, uint64_t length) {
  std::vector<DataRange> items;
  for (uint64_t begin = 0; begin < size; begin += length) {
    items.push_back({.begin = begin, .end = std::min(begin + length, size)});
  }
  return items;
}

TEST_F(OrderedReaderTest, PositionsAreWhatTheOrderSays) {
  WriteFiles({300, 0, 1, 500, 130}, /*compressed=*/false);
  for (const ShuffleRule rule :
       {ShuffleRule::kNone, ShuffleRule::kLocal, ShuffleRule::kGlobal}) {
    for (const uint64_t length : {1, 100, 931}) {
      const auto order = Order(rule, 200);
      seen_.assign(numbers_.size(), 0);
      SharedList ranges(Cut(order->size(), length));
      OrderedReader reader(
          std::make_unique<FilePositions>(options_, files_, index_.get(), order,
                                          &bad_lines_),
          &ranges);
      ExpectRead(reader, *order, 70);
      // A malformed line at the very end of the phase is in no batch.
      for (size_t p = 0; p + 3 < seen_.size(); ++p) ASSERT_EQ(seen_[p], 1) << p;
    }
  }
}

TEST_F(OrderedReaderTest, CompressedFilesAreReadInOrder) {
  WriteFiles({300, 200, 10}, /*compressed=*/true);
  const auto order = Order(ShuffleRule::kNone, 1);
  seen_.assign(numbers_.size(), 0);
  SharedList ranges(Cut(order->size(), 64));
  OrderedReader reader(std::make_unique<FilePositions>(
                           options_, files_, index_.get(), order, &bad_lines_),
                       &ranges);
  ExpectRead(reader, *order, 100);
}

TEST_F(OrderedReaderTest, AFileThatShrinksIsSaidSo) {
  WriteFiles({300}, /*compressed=*/false);
  folder_.Write("0", NumberedLine(0) + "\n");
  const auto order = Order(ShuffleRule::kGlobal, 100);
  SharedList ranges(Cut(order->size(), 64));
  OrderedReader reader(std::make_unique<FilePositions>(
                           options_, files_, index_.get(), order, &bad_lines_),
                       &ranges);
  Batch batch;
  const auto more = reader.Next(50, &batch);
  EXPECT_EQ(more.status().code(), absl::StatusCode::kFailedPrecondition);
  EXPECT_THAT(std::string(more.status().message()),
              HasSubstr("changed during the run"));
  EXPECT_EQ(reader.Next(50, &batch).status(), more.status());
}

class MemoryDatasetTest : public OrderedReaderTest {
 protected:
  MemoryDataset::Share ShareOf(std::shared_ptr<const ExampleOrder> order,
                               std::vector<PositionRun> runs, uint64_t epoch,
                               ShuffleRule shuffle = ShuffleRule::kNone) {
    return {.epoch = epoch,
            .shuffle = shuffle,
            .order = std::move(order),
            .share = std::make_shared<const PositionRuns>(std::move(runs))};
  }
  std::unique_ptr<MemoryDataset> Dataset(uint64_t bytes_max,
                                         int num_threads = 3) {
    MemoryDataset::Options options;
    options.data = options_;
    options.files = files_;
    options.bytes_max = bytes_max;
    options.num_threads = num_threads;
    return std::make_unique<MemoryDataset>(options, index_.get());
  }
};

TEST_F(MemoryDatasetTest, GivesWhatTheFilesGiveAlsoCompressedOnes) {
  WriteFiles({9000, 0, 8000, 4000}, /*compressed=*/true);
  const auto order = Order(ShuffleRule::kGlobal, 500);
  const auto dataset = Dataset(1 << 30);
  const std::vector<PositionRun> runs = {{0, 5000}, {7000, 20'000}};
  const auto loaded = dataset->Take(ShareOf(order, runs, 0));
  ASSERT_TRUE(loaded.ok()) << loaded.status();
  EXPECT_GE(dataset->bytes(), 18'000u * (26 * 8 + 13 * 4 + 4) * 9 / 10);
  EXPECT_LE(dataset->bytes(), 18'000u * (26 * 8 + 13 * 4 + 4 + 30));
  // The files are not needed any more.
  for (const std::string& file : files_) std::filesystem::remove(file);
  seen_.assign(numbers_.size(), 0);
  std::vector<DataRange> items;
  for (const PositionRun& run : runs) {
    for (uint64_t p = run.begin; p < run.end; p += 1000) {
      items.push_back({.begin = p, .end = std::min(p + 1000, run.end)});
    }
  }
  SharedList ranges(items);
  OrderedReader reader(
      std::make_unique<MemoryPositions>(options_, files_, index_.get(), *loaded,
                                        &bad_lines_),
      &ranges);
  ExpectRead(reader, *order, 128);
  int malformed = 0;
  OrderCursor cursor(order.get());
  for (const PositionRun& run : runs) {
    for (uint64_t p = run.begin; p < run.end; ++p) {
      malformed += numbers_[cursor.At(p)] == kMalformed;
    }
  }
  EXPECT_GT(malformed, 0);
  EXPECT_EQ(bad_lines_.count(), malformed);
}

TEST_F(MemoryDatasetTest, ANewOrderOfTheSameExamplesReadsNothing) {
  WriteFiles({3000}, /*compressed=*/false);
  const auto dataset = Dataset(1 << 30);
  const std::vector<PositionRun> all = {{0, 3000}};
  const auto first =
      dataset->Take(ShareOf(Order(ShuffleRule::kNone, 100), all, 0));
  ASSERT_TRUE(first.ok()) << first.status();
  std::filesystem::remove(files_[0]);
  dataset->Preload(ShareOf(Order(ShuffleRule::kGlobal, 100), all, 1));
  ASSERT_TRUE(dataset->WaitPreload().ok());
  const auto second =
      dataset->Take(ShareOf(Order(ShuffleRule::kGlobal, 100), all, 1));
  ASSERT_TRUE(second.ok()) << second.status();
  EXPECT_EQ((*second)->memory, (*first)->memory);
  // An epoch with other examples does read.
  EXPECT_FALSE(
      dataset->Take(ShareOf(Order(ShuffleRule::kNone, 100), {{0, 5}}, 2)).ok());
  dataset->Release();
  EXPECT_EQ(dataset->bytes(), 0u);
}

TEST_F(MemoryDatasetTest, AnotherShuffleOfAPreloadKeepsTheExamples) {
  WriteFiles({3000}, /*compressed=*/false);
  const auto dataset = Dataset(1 << 30);
  const std::vector<PositionRun> all = {{0, 3000}};
  const auto plain = Order(ShuffleRule::kNone, 100);
  const auto shuffled = Order(ShuffleRule::kGlobal, 100);
  dataset->Preload(ShareOf(plain, all, 0));
  ASSERT_TRUE(dataset->WaitPreload().ok());
  const uint64_t bytes = dataset->bytes();
  std::filesystem::remove(files_[0]);
  dataset->Preload(ShareOf(shuffled, all, 0, ShuffleRule::kGlobal));
  ASSERT_TRUE(dataset->WaitPreload().ok());
  EXPECT_EQ(dataset->bytes(), bytes);
  const auto loaded =
      dataset->Take(ShareOf(shuffled, all, 0, ShuffleRule::kGlobal));
  ASSERT_TRUE(loaded.ok()) << loaded.status();
  EXPECT_EQ((*loaded)->order, shuffled);
  // Without a Preload in between, too.
  dataset->Preload(ShareOf(shuffled, all, 1, ShuffleRule::kGlobal));
  const auto next = dataset->Take(ShareOf(plain, all, 1));
  ASSERT_TRUE(next.ok()) << next.status();
  EXPECT_EQ((*next)->order, plain);
  EXPECT_EQ((*next)->memory, (*loaded)->memory);
}

TEST_F(MemoryDatasetTest, AFailedPreloadIsOverWithTheNextTake) {
  WriteFiles({3000}, /*compressed=*/false);
  const auto dataset = Dataset(1 << 30);
  const auto order = Order(ShuffleRule::kNone, 1);
  const std::vector<PositionRun> half = {{0, 1500}};
  const std::vector<PositionRun> other_half = {{1500, 3000}};
  const std::string gone = files_[0] + ".gone";
  const auto fail_to_preload = [&](const std::vector<PositionRun>& runs,
                                   uint64_t epoch) {
    std::filesystem::rename(files_[0], gone);
    dataset->Preload(ShareOf(order, runs, epoch));
    EXPECT_EQ(dataset->WaitPreload().code(), absl::StatusCode::kNotFound);
    std::filesystem::rename(gone, files_[0]);
  };
  // One that did not want it is loaded, whether it is another epoch or
  // another shuffle.
  fail_to_preload(half, 0);
  const auto other = dataset->Take(ShareOf(order, other_half, 1));
  ASSERT_TRUE(other.ok()) << other.status();
  EXPECT_EQ((*other)->indices.size(), 1500u);
  EXPECT_TRUE(dataset->WaitPreload().ok());
  fail_to_preload(half, 2);
  EXPECT_TRUE(dataset->Take(ShareOf(order, half, 2, ShuffleRule::kLocal)).ok());
  // The epoch that wanted it hears of it, once.
  fail_to_preload(other_half, 3);
  EXPECT_EQ(dataset->Take(ShareOf(order, other_half, 3)).status().code(),
            absl::StatusCode::kNotFound);
  EXPECT_TRUE(dataset->WaitPreload().ok());
  EXPECT_EQ(dataset->bytes(), 0u);
  EXPECT_TRUE(dataset->Take(ShareOf(order, other_half, 3)).ok());
}

TEST_F(MemoryDatasetTest, ADroppedPreloadTellsItsEpochAndLeavesNothing) {
  WriteFiles({20'000}, /*compressed=*/false);
  const auto dataset = Dataset(1 << 30, 1);
  const auto order = Order(ShuffleRule::kNone, 1);
  EXPECT_EQ(dataset->DropPreload(), std::nullopt);
  dataset->Preload(ShareOf(order, {{0, 10'000}}, 3));
  EXPECT_EQ(dataset->DropPreload(), 3u);
  EXPECT_EQ(dataset->DropPreload(), std::nullopt);
  EXPECT_EQ(dataset->bytes(), 0u);
  // What was broken off is no failure of what comes after it.
  EXPECT_TRUE(dataset->WaitPreload().ok());
  dataset->Preload(ShareOf(order, {{10'000, 20'000}}, 3));
  const auto loaded = dataset->Take(ShareOf(order, {{10'000, 20'000}}, 3));
  ASSERT_TRUE(loaded.ok()) << loaded.status();
  EXPECT_EQ((*loaded)->indices.size(), 10'000u);
  // The examples of a preload that serve no more make room for the next.
  dataset->Preload(ShareOf(order, {{0, 5'000}}, 4));
  ASSERT_TRUE(dataset->WaitPreload().ok());
  const uint64_t both = dataset->bytes();
  dataset->Preload(ShareOf(order, {{5'000, 10'000}}, 4, ShuffleRule::kLocal));
  ASSERT_TRUE(dataset->WaitPreload().ok());
  EXPECT_LT(dataset->bytes(), both + both / 10);
}

TEST_F(MemoryDatasetTest, TheLimitIsNamedWhereItIsExceeded) {
  WriteFiles({20'000}, /*compressed=*/false);
  const std::vector<PositionRun> half = {{0, 10'000}};
  const std::vector<PositionRun> other_half = {{10'000, 20'000}};
  const auto order = Order(ShuffleRule::kNone, 1);
  const auto too_small = Dataset(2 << 20, 1);
  const absl::Status status = too_small->Take(ShareOf(order, half, 0)).status();
  EXPECT_EQ(status.code(), absl::StatusCode::kResourceExhausted);
  EXPECT_THAT(std::string(status.message()), HasSubstr("--dataset_memory_mb"));
  EXPECT_THAT(std::string(status.message()), HasSubstr("2 MiB"));
  // Room for one epoch, not for two at a time.
  const auto one = Dataset(4 << 20, 1);
  ASSERT_TRUE(one->Take(ShareOf(order, half, 0)).ok());
  one->Preload(ShareOf(order, other_half, 1));
  EXPECT_THAT(std::string(one->WaitPreload().message()),
              HasSubstr("--preload false"));
  const auto in_turn = Dataset(4 << 20, 1);
  ASSERT_TRUE(in_turn->Take(ShareOf(order, half, 0)).ok());
  EXPECT_TRUE(in_turn->Take(ShareOf(order, other_half, 1)).ok());
}

TEST_F(MemoryDatasetTest, APreloadIsBrokenOffByTheEnd) {
  WriteFiles({20'000}, /*compressed=*/false);
  const auto dataset = Dataset(1 << 30);
  dataset->Preload(ShareOf(Order(ShuffleRule::kNone, 1), {{0, 20'000}}, 0));
}

TEST(AppendExampleTest, KeepsKeysOffsetsAndWeightsOfEachExample) {
  constexpr uint64_t kSeed = 9;
  std::cout << "seed " << kSeed << "\n";
  RandomSequence random(kSeed);
  const DataSchema schema = {.num_dense = 1, .num_slots = 2};
  // Batches of one key a slot, of several, and with weights.
  std::vector<Batch> sources(3);
  for (size_t kind = 0; kind < 3; ++kind) {
    Batch& batch = sources[kind];
    if (kind > 0) batch.offsets.push_back(0);
    for (int i = 0; i < 10; ++i) {
      ++batch.num_examples;
      batch.labels.push_back(static_cast<float>(i % 2));
      batch.dense.push_back(static_cast<float>(i));
      for (int s = 0; s < 2; ++s) {
        const uint64_t n = kind == 0 ? 1 : random.Below(3);
        for (uint64_t k = 0; k < n; ++k) {
          batch.keys.push_back(Key{random()});
          if (kind == 2) {
            batch.weights.push_back(static_cast<float>(random.Below(9)));
          }
        }
        if (kind > 0) {
          batch.offsets.push_back(static_cast<uint32_t>(batch.keys.size()));
        }
      }
    }
  }
  for (int round = 0; round < 200; ++round) {
    Batch to;
    std::vector<std::pair<Key, float>> expected;
    std::vector<uint32_t> offsets = {0};
    for (int i = 0; i < 5; ++i) {
      const Batch& from = sources[random.Below(3)];
      const size_t example = random.Below(10);
      AppendExample(schema, from, example, &to);
      for (size_t s = 0; s < 2; ++s) {
        const size_t cell = example * 2 + s;
        const size_t begin = from.offsets.empty() ? cell : from.offsets[cell];
        const size_t end =
            from.offsets.empty() ? cell + 1 : from.offsets[cell + 1];
        for (size_t k = begin; k < end; ++k) {
          expected.emplace_back(from.keys[k],
                                from.weights.empty() ? 1 : from.weights[k]);
        }
        offsets.push_back(static_cast<uint32_t>(expected.size()));
      }
    }
    ASSERT_EQ(to.num_examples, 5u);
    ASSERT_EQ(to.keys.size(), expected.size());
    for (size_t k = 0; k < expected.size(); ++k) {
      ASSERT_EQ(to.keys[k], expected[k].first);
      ASSERT_EQ(to.weights.empty() ? 1 : to.weights[k], expected[k].second);
    }
    if (!to.offsets.empty()) {
      ASSERT_EQ(to.offsets, offsets);
    } else {
      ASSERT_EQ(to.keys.size(), 10u);
    }
  }
}

}  // namespace
}  // namespace oarlock::data
