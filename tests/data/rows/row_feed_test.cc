#include "data/rows/row_feed.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <optional>
#include <set>
#include <thread>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "base/random.h"
#include "data/order/static_split.h"

namespace oarlock::data {
namespace {

constexpr uint64_t kNever = ~uint64_t{0};

// Row r of source s is an example with the key s * 1000 + r; every tenth one is
// bad.
class NumberedRows : public RowStream {
 public:
  explicit NumberedRows(bool has_bad, uint64_t fails_at = kNever)
      : has_bad_(has_bad), fails_at_(fails_at) {}

  static bool IsBad(uint64_t row) { return row % 10 == 3; }
  absl::Status Take(uint32_t source, uint64_t begin, uint64_t end,
                    Batch* batch) override {
    for (uint64_t row = begin; row < end; ++row) {
      if (row == fails_at_) {
        return absl::UnavailableError(absl::StrCat("row ", row));
      }
      if (has_bad_ && IsBad(row)) continue;
      ++batch->num_examples;
      batch->labels.push_back(0);
      batch->keys.push_back(Key(source * 1000 + row));
    }
    return absl::OkStatus();
  }

 private:
  const bool has_bad_;
  const uint64_t fails_at_;
};

// Ranges with leases, of which every one is to be done once.
class Leases : public RangeSource {
 public:
  explicit Leases(std::vector<DataRange> ranges) : ranges_(std::move(ranges)) {
    for (size_t i = 0; i < ranges_.size(); ++i) ranges_[i].lease = i;
  }
  absl::StatusOr<std::optional<DataRange>> Next() override {
    absl::MutexLock lock(&mutex_);
    if (next_ == ranges_.size()) return std::nullopt;
    return ranges_[next_++];
  }
  void Done(const DataRange& range) override {
    absl::MutexLock lock(&mutex_);
    done_.insert(range.lease);
  }
  std::multiset<uint64_t> done() {
    absl::MutexLock lock(&mutex_);
    return done_;
  }

 private:
  absl::Mutex mutex_;
  std::vector<DataRange> ranges_;
  size_t next_ = 0;
  std::multiset<uint64_t> done_;
};

std::vector<uint64_t> KeysOf(const Batch& batch) {
  std::vector<uint64_t> keys;
  for (const Key key : batch.keys) keys.push_back(static_cast<uint64_t>(key));
  return keys;
}

TEST(RowFeedTest, ThreadsGetEveryRowOnceAndLeasesAreDoneOnce) {
  Leases leases({{.source = 0, .begin = 0, .end = 100},
                 {.source = 1, .begin = 3, .end = 4},
                 {.source = 2, .begin = 0, .end = 57},
                 {.source = 3, .begin = 10, .end = 300}});
  const auto feed = std::make_shared<RowFeed>(
      std::make_unique<NumberedRows>(/*has_bad=*/true), &leases, 0);
  absl::Mutex mutex;
  std::multiset<uint64_t> keys;
  std::vector<std::thread> threads;
  for (size_t t = 0; t < 4; ++t) {
    threads.emplace_back([&, t] {
      RowReader reader(feed, t);
      Batch batch;
      for (;;) {
        const auto more = reader.Next(16, &batch);
        ASSERT_TRUE(more.ok()) << more.status();
        if (!*more) return;
        ASSERT_GT(batch.num_examples, 0u);
        ASSERT_LE(batch.num_examples, 16u);
        absl::MutexLock lock(&mutex);
        for (const uint64_t key : KeysOf(batch)) keys.insert(key);
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  std::multiset<uint64_t> expected;
  const auto expect = [&](uint64_t source, uint64_t begin, uint64_t end) {
    for (uint64_t row = begin; row < end; ++row) {
      if (!NumberedRows::IsBad(row)) expected.insert(source * 1000 + row);
    }
  };
  expect(0, 0, 100);
  expect(2, 0, 57);
  expect(3, 10, 300);
  EXPECT_EQ(keys, expected);
  EXPECT_EQ(leases.done(), (std::multiset<uint64_t>{0, 1, 2, 3}));
}

TEST(RowFeedTest, ALeaseIsDoneWhenTheReaderOfItsLastRowAsksAgain) {
  Leases leases({{.source = 0, .begin = 0, .end = 3}});
  const auto feed = std::make_shared<RowFeed>(
      std::make_unique<NumberedRows>(false), &leases, 0);
  RowReader first(feed, 0);
  RowReader second(feed, 1);
  Batch batch;
  ASSERT_TRUE(*first.Next(2, &batch));
  ASSERT_TRUE(*second.Next(2, &batch));
  EXPECT_FALSE(*second.Next(2, &batch));
  EXPECT_TRUE(leases.done().empty());
  EXPECT_FALSE(*first.Next(2, &batch));
  EXPECT_EQ(leases.done(), (std::multiset<uint64_t>{0}));
}

TEST(RowFeedTest, AnErrorIsThatOfAllReadersFromThenOn) {
  Leases leases({{.source = 0, .begin = 0, .end = 100}});
  const auto feed = std::make_shared<RowFeed>(
      std::make_unique<NumberedRows>(false, /*fails_at=*/20), &leases, 0);
  RowReader first(feed, 0);
  RowReader second(feed, 1);
  Batch batch;
  ASSERT_TRUE(*first.Next(16, &batch));
  EXPECT_EQ(first.Next(16, &batch).status().message(), "row 20");
  EXPECT_EQ(second.Next(16, &batch).status().message(), "row 20");
  EXPECT_EQ(batch.num_examples, 0u);
  EXPECT_TRUE(leases.done().empty());
}

// What each reader gets in turns does not depend on who asks when.
TEST(RowFeedTest, BlocksAreThoseOfTheirReadersWhoeverAsksFirst) {
  RandomSequence random(1129);
  for (int trial = 0; trial < 50; ++trial) {
    std::vector<ExampleRange> runs;
    for (uint32_t source = 0; source < 1 + random.Below(5); ++source) {
      runs.push_back({source, random.Below(5), 5 + random.Below(90)});
    }
    const uint64_t block = 1 + random.Below(13);
    const size_t turns = 1 + random.Below(4);
    ExampleIntervals covered;
    if (random.Below(2) == 0) covered.Add({0, 7, 7 + random.Below(40)});
    const bool has_bad = random.Below(2) == 0;
    // Block b of what is left is that of reader b mod turns.
    std::vector<std::vector<std::vector<uint64_t>>> expected(turns);
    {
      RunSplit split(runs, block, &covered);
      std::vector<uint64_t> keys;
      for (size_t b = 0; b < split.num_blocks();) {
        const DataRange range = **split.Next();
        for (uint64_t row = range.begin; row < range.end; ++row) {
          if (has_bad && NumberedRows::IsBad(row)) continue;
          keys.push_back(range.source * 1000 + row);
        }
        if (!range.ends_batch) continue;
        if (!keys.empty()) expected[b % turns].push_back(keys);
        keys.clear();
        ++b;
      }
    }
    RunSplit split(runs, block, &covered);
    const auto feed = std::make_shared<RowFeed>(
        std::make_unique<NumberedRows>(has_bad), &split, turns);
    std::vector<RowReader> readers;
    for (size_t t = 0; t < turns; ++t) readers.emplace_back(feed, t);
    std::vector<std::vector<std::vector<uint64_t>>> got(turns);
    std::set<size_t> left;
    for (size_t t = 0; t < turns; ++t) left.insert(t);
    while (!left.empty()) {
      const size_t t = *std::next(
          left.begin(), static_cast<ptrdiff_t>(random.Below(left.size())));
      Batch batch;
      const auto more = readers[t].Next(block, &batch);
      ASSERT_TRUE(more.ok()) << more.status();
      if (*more) {
        got[t].push_back(KeysOf(batch));
      } else {
        left.erase(t);
      }
    }
    ASSERT_EQ(got, expected) << "trial " << trial;
  }
}

TEST(RowFeedTest, RangesOfABatchAreItsRowsBadOnesIncluded) {
  RunSplit split({{1, 0, 10}, {2, 5, 15}}, 8, nullptr);
  const auto feed = std::make_shared<RowFeed>(
      std::make_unique<NumberedRows>(true), &split, 1);
  RowReader reader(feed, 0);
  Batch batch;
  ASSERT_TRUE(*reader.Next(8, &batch));
  ASSERT_EQ(batch.ranges.size(), 1u);
  EXPECT_EQ(batch.ranges[0].end, 8u);
  EXPECT_EQ(batch.num_examples, 7u);
  ASSERT_TRUE(*reader.Next(8, &batch));
  ASSERT_EQ(batch.ranges.size(), 2u);
  EXPECT_EQ(batch.ranges[0].source, 1u);
  EXPECT_EQ(batch.ranges[1].begin, 5u);
  EXPECT_EQ(batch.ranges[1].end, 11u);
}

}  // namespace
}  // namespace oarlock::data
