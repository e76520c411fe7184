#include "pserver/aggregator/change_log.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cstdint>
#include <set>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "base/random.h"

namespace oarlock::pserver {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;

std::vector<Key> Keys(const std::vector<uint64_t>& numbers) {
  std::vector<Key> keys;
  for (const uint64_t number : numbers) keys.push_back(Key{number});
  return keys;
}

TEST(ChangeLogTest, TellsWhatOthersHaveChangedOnceAndInOrder) {
  ChangeLog log(100);
  log.Add(WorkerIndex(0), Keys({7, 3}));
  log.Add(WorkerIndex(1), Keys({5, ~uint64_t{0}, 7}));
  log.Add(WorkerIndex(2), Keys({5}));
  const ChangeLog::Changes changes = log.List(WorkerIndex(0), 0, 100);
  EXPECT_THAT(changes.keys, ElementsAre(Key{5}, Key{7}, Key{~uint64_t{0}}));
  EXPECT_FALSE(changes.more);
  EXPECT_FALSE(changes.forgotten);
  EXPECT_EQ(changes.position, 6u);
  EXPECT_THAT(log.List(WorkerIndex(0), 6, 100).keys, IsEmpty());
}

TEST(ChangeLogTest, WhatIsOlderThanItsMemoryIsForgotten) {
  ChangeLog log(4);
  log.Add(WorkerIndex(1), Keys({1, 2, 3, 4, 5}));
  const ChangeLog::Changes changes = log.List(WorkerIndex(0), 0, 100);
  EXPECT_TRUE(changes.forgotten);
  EXPECT_EQ(changes.position, 5u);
  EXPECT_THAT(changes.keys, IsEmpty());
  // One further on it has all.
  EXPECT_THAT(log.List(WorkerIndex(0), 1, 100).keys,
              ElementsAre(Key{2}, Key{3}, Key{4}, Key{5}));
}

TEST(ChangeLogTest, PositionOfAnotherLogIsForgotten) {
  ChangeLog log(4);
  log.Add(WorkerIndex(1), Keys({1}));
  EXPECT_TRUE(log.List(WorkerIndex(0), 2, 100).forgotten);
}

TEST(ChangeLogTest, ResponsesAreBoundedAndGoOn) {
  ChangeLog log(1000);
  std::vector<uint64_t> numbers;
  for (uint64_t i = 0; i < 25; ++i) numbers.push_back(i);
  log.Add(WorkerIndex(1), Keys(numbers));
  uint64_t position = 0;
  std::vector<size_t> sizes;
  for (bool more = true; more;) {
    const ChangeLog::Changes changes = log.List(WorkerIndex(0), position, 10);
    sizes.push_back(changes.keys.size());
    position = changes.position;
    more = changes.more;
  }
  EXPECT_THAT(sizes, ElementsAre(10, 10, 5));
}

// A worker that asks now and then has heard, in all, of every key that others
// have added, or was told that it has not.
TEST(ChangeLogTest, AgreesWithAListThatForgetsNothing) {
  const uint64_t seed = 5;
  SCOPED_TRACE(absl::StrCat("seed ", seed));
  RandomSequence random(seed);
  constexpr size_t kCapacity = 64;
  constexpr uint32_t kWorkers = 3;
  ChangeLog log(kCapacity);
  std::vector<std::pair<uint32_t, Key>> all;
  std::vector<uint64_t> positions(kWorkers);
  uint64_t times_forgotten = 0;
  for (int i = 0; i < 3000; ++i) {
    const auto worker = static_cast<uint32_t>(random.Below(kWorkers));
    if (random.Below(3) > 0) {
      std::vector<Key> keys(random.Below(12));
      for (Key& key : keys) key = Key{random.Below(40)};
      log.Add(WorkerIndex(worker), keys);
      for (const Key key : keys) all.emplace_back(worker, key);
      continue;
    }
    const uint64_t position = positions[worker];
    const size_t max_keys = 1 + random.Below(30);
    const ChangeLog::Changes changes =
        log.List(WorkerIndex(worker), position, max_keys);
    positions[worker] = changes.position;
    const bool gone = all.size() - position > kCapacity;
    ASSERT_EQ(changes.forgotten, gone);
    times_forgotten += gone;
    if (gone) {
      ASSERT_EQ(changes.position, all.size());
      continue;
    }
    std::set<Key> expected;
    for (uint64_t p = position; p < changes.position; ++p) {
      if (all[p].first != worker) expected.insert(all[p].second);
    }
    ASSERT_EQ(changes.keys, std::vector<Key>(expected.begin(), expected.end()));
    ASSERT_LE(changes.keys.size(), max_keys);
    ASSERT_EQ(changes.more, changes.position < all.size());
  }
  EXPECT_GT(times_forgotten, 5u);
}

}  // namespace
}  // namespace oarlock::pserver
