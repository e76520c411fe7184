// Pushers and pullers at once, with an oracle: integer gradients, sgd at
// learning rate -1 and initial values 0 make every row count the pushes that
// were applied to it, exactly. Meant for ThreadSanitizer as well.

#include <gtest/gtest.h>

#include <atomic>
#include <map>
#include <thread>
#include <tuple>

#include "base/random.h"
#include "sparse_table/rows/reader_writer_lock.h"
#include "sparse_table/sparse_table.h"
#include "tests/sparse_table/table_testing.h"

namespace oarlock::sparse_table {
namespace {

constexpr uint64_t kSeed = 31;
constexpr size_t kDim = 4;

v1::TableConfig CountingConfig() {
  v1::TableConfig config = SparseConfig(kDim, SgdOptimizer(-1));
  config.mutable_sparse()->mutable_initializer()->set_constant(0);
  return config;
}

GroupedKeys RandomKeys(RandomSequence& random, size_t num_keys,
                       uint64_t key_space, int partition_bits) {
  std::map<Key, bool> chosen;
  while (chosen.size() < num_keys) chosen[Key{random.Below(key_space)}] = true;
  std::vector<Key> keys;
  for (const auto& [key, unused] : chosen) keys.push_back(key);
  return Grouped(std::move(keys), partition_bits);
}

// Pushes 1 to random keys under the name of `worker`, every push twice, and
// counts what it pushed.
void PushMany(SparseTable& table, uint32_t worker, int num_pushes,
              uint64_t key_space, int partition_bits,
              std::map<Key, uint64_t>* counts) {
  RandomSequence random(kSeed + worker);
  for (int i = 1; i <= num_pushes; ++i) {
    const GroupedKeys keys =
        RandomKeys(random, 1 + random.Below(400), key_space, partition_bits);
    const std::vector<float> ones(keys.keys.size() * kDim, 1.0f);
    const PushStamp stamp = Stamp(worker, 1, i);
    SparsePush push;
    push.groups = keys.groups;
    push.keys = keys.keys.data();
    push.gradients = ones.data();
    push.stamps = {&stamp, 1};
    for (const uint32_t duplicates : {size_t{0}, keys.groups.size()}) {
      absl::StatusOr<SparsePushResult> result = table.Push(push);
      ASSERT_TRUE(result.ok()) << result.status();
      ASSERT_EQ(result->duplicate_groups, duplicates);
    }
    for (const Key key : keys.keys) ++(*counts)[key];
  }
}

// Pulls until `done`: rows are whole, and neither they nor versions go back.
void PullMany(const SparseTable& table, uint64_t seed, uint64_t key_space,
              int partition_bits, const std::atomic<bool>& done,
              std::atomic<int>* num_pulls) {
  RandomSequence random(seed);
  std::map<Key, float> seen;
  std::map<PartitionIndex, uint64_t> seen_versions;
  while (!done.load()) {
    const GroupedKeys keys =
        RandomKeys(random, 1 + random.Below(400), key_space, partition_bits);
    std::vector<float> values(keys.keys.size() * kDim);
    std::vector<uint64_t> versions(keys.groups.size());
    EXPECT_TRUE(
        table
            .Pull(keys.groups, keys.keys.data(), values.data(), versions.data())
            .ok());
    for (size_t i = 0; i < keys.keys.size(); ++i) {
      for (size_t d = 1; d < kDim; ++d) {
        ASSERT_EQ(values[i * kDim + d], values[i * kDim]);
      }
      float& last = seen[keys.keys[i]];
      ASSERT_GE(values[i * kDim], last);
      last = values[i * kDim];
    }
    for (size_t g = 0; g < versions.size(); ++g) {
      uint64_t& last = seen_versions[keys.groups[g].partition];
      ASSERT_GE(versions[g], last);
      last = versions[g];
    }
    num_pulls->fetch_add(1);
  }
}

// Partition bits; rows of a partition in memory, 0: all.
class ConcurrencyTest : public testing::TestWithParam<std::tuple<int, size_t>> {
};

TEST_P(ConcurrencyTest, EveryPushIsCountedOnceWhilePullsGoOn) {
  SCOPED_TRACE(testing::Message() << "seed " << kSeed);
  constexpr int kPushes = 150;
  constexpr uint64_t kKeySpace = 20000;
  const int bits = std::get<0>(GetParam());
  const size_t memory_rows = std::get<1>(GetParam());
  v1::TableConfig config = CountingConfig();
  const SparseTableOptions options = WithTiers(memory_rows, &config);
  absl::StatusOr<std::unique_ptr<SparseTable>> table =
      SparseTable::Create(config, bits, options);
  ASSERT_TRUE(table.ok()) << table.status();
  std::atomic<bool> done{false};
  std::atomic<int> num_pulls{0};
  std::map<Key, uint64_t> counts[2];
  std::vector<std::thread> pullers, pushers;
  for (int i = 0; i < 2; ++i) {
    pullers.emplace_back([&, i] {
      PullMany(**table, kSeed + 10 + i, kKeySpace, bits, done, &num_pulls);
    });
  }
  for (uint32_t i = 0; i < 2; ++i) {
    pushers.emplace_back(
        [&, i] { PushMany(**table, i, kPushes, kKeySpace, bits, &counts[i]); });
  }
  std::thread watcher([&] {
    while (!done.load()) {
      (*table)->Stats();
      (*table)->HasApplied(PartitionIndex(0), Stamp(0, 1, 1));
      std::this_thread::yield();
    }
  });
  for (std::thread& pusher : pushers) pusher.join();
  done = true;
  for (std::thread& puller : pullers) puller.join();
  watcher.join();
  EXPECT_GT(num_pulls.load(), 0);

  std::map<Key, uint64_t> expected = counts[0];
  for (const auto& [key, count] : counts[1]) expected[key] += count;
  size_t num_rows = 0;
  const absl::Status visited = (*table)->ForEachRow(
      [&](PartitionIndex, const SparseTable::RowView& row) {
        ++num_rows;
        ASSERT_EQ(row.embedding[0], static_cast<float>(expected[row.key]))
            << "key " << static_cast<uint64_t>(row.key);
      });
  EXPECT_TRUE(visited.ok()) << visited;
  EXPECT_EQ(num_rows, expected.size());
}

// Keys below kHotKeys are shown often, so their rows stay; the others are
// evicted and created again all the time.
constexpr uint64_t kHotKeys = 300;
constexpr float kHotShow = 4;
constexpr float kColdShow = 1;

float ShowOf(Key key) {
  return static_cast<uint64_t>(key) < kHotKeys ? kHotShow : kColdShow;
}

// Random keys that are `worker` modulo 2.
GroupedKeys OwnKeys(RandomSequence& random, uint32_t worker, uint64_t key_space,
                    int partition_bits) {
  std::map<Key, bool> chosen;
  const size_t num_keys = 1 + random.Below(300);
  while (chosen.size() < num_keys) {
    const uint64_t below = random.Below(2) ? kHotKeys : key_space;
    chosen[Key{random.Below(below / 2) * 2 + worker}] = true;
  }
  std::vector<Key> keys;
  for (const auto& [key, unused] : chosen) keys.push_back(key);
  return Grouped(std::move(keys), partition_bits);
}

// Pushes 1 and ShowOf to keys that nobody else pushes to, and looks at each
// right away: a hot row has counted every push; a cold one every push since it
// was created, or is gone.
void PushAndCheck(SparseTable& table, uint32_t worker, int num_pushes,
                  uint64_t key_space, int partition_bits,
                  std::map<Key, float>* counts) {
  RandomSequence random(kSeed + 100 + worker);
  for (int i = 1; i <= num_pushes; ++i) {
    const GroupedKeys keys = OwnKeys(random, worker, key_space, partition_bits);
    const size_t n = keys.keys.size();
    std::vector<float> values(n * kDim, 1.0f), shows(n), clicks(n, 0.0f);
    for (size_t k = 0; k < n; ++k) shows[k] = ShowOf(keys.keys[k]);
    const PushStamp stamp = Stamp(worker, 1, i);
    SparsePush push;
    push.groups = keys.groups;
    push.keys = keys.keys.data();
    push.gradients = values.data();
    push.shows = shows.data();
    push.stamps = {&stamp, 1};
    ASSERT_TRUE(table.Push(push).ok());
    EXPECT_TRUE(table
                    .PullWithStatistics(keys.groups, keys.keys.data(),
                                        values.data(), shows.data(),
                                        clicks.data(), nullptr)
                    .ok());
    for (size_t k = 0; k < n; ++k) {
      const Key key = keys.keys[k];
      const float value = values[k * kDim];
      float& count = (*counts)[key];
      if (static_cast<uint64_t>(key) < kHotKeys) {
        ASSERT_EQ(value, count + 1) << "key " << static_cast<uint64_t>(key);
      } else {
        ASSERT_TRUE(value == count + 1 || value == 1 || value == 0)
            << "key " << static_cast<uint64_t>(key) << " has " << value
            << " after " << count;
      }
      count = value;
    }
  }
}

// Pulls until `done`: rows are whole, and value and show of one row belong
// together.
void PullAndCheck(const SparseTable& table, uint64_t seed, uint64_t key_space,
                  int partition_bits, const std::atomic<bool>& done,
                  std::atomic<int>* num_pulls) {
  RandomSequence random(seed);
  while (!done.load()) {
    const GroupedKeys keys =
        RandomKeys(random, 1 + random.Below(300), key_space, partition_bits);
    const size_t n = keys.keys.size();
    std::vector<float> values(n * kDim), shows(n), clicks(n);
    EXPECT_TRUE(table
                    .PullWithStatistics(keys.groups, keys.keys.data(),
                                        values.data(), shows.data(),
                                        clicks.data(), nullptr)
                    .ok());
    for (size_t i = 0; i < n; ++i) {
      for (size_t d = 1; d < kDim; ++d) {
        ASSERT_EQ(values[i * kDim + d], values[i * kDim]);
      }
      ASSERT_EQ(shows[i], values[i * kDim] * ShowOf(keys.keys[i]));
    }
    num_pulls->fetch_add(1);
  }
}

TEST_P(ConcurrencyTest, EvictionTakesWholeRowsAndNoOthersWhileTrafficGoesOn) {
  SCOPED_TRACE(testing::Message() << "seed " << kSeed);
  constexpr int kPushes = 300;
  constexpr uint64_t kKeySpace = 6000;
  const int bits = std::get<0>(GetParam());
  const size_t memory_rows = std::get<1>(GetParam());
  v1::TableConfig config = CountingConfig();
  config.mutable_sparse()->set_accessor(v1::CTR);
  // A hot row is above the limit from its first push on, a cold one from its
  // fourth.
  config.mutable_sparse()->mutable_ctr()->set_non_click_coefficient(1);
  config.mutable_sparse()->mutable_eviction()->set_score_min(kHotShow);
  const SparseTableOptions options = WithTiers(memory_rows, &config);
  absl::StatusOr<std::unique_ptr<SparseTable>> table =
      SparseTable::Create(config, bits, options);
  ASSERT_TRUE(table.ok()) << table.status();
  std::atomic<bool> done{false};
  std::atomic<int> num_pulls{0};
  std::map<Key, float> counts[2];
  std::vector<std::thread> others, pushers;
  for (int i = 0; i < 2; ++i) {
    others.emplace_back([&, i] {
      PullAndCheck(**table, kSeed + 20 + i, kKeySpace, bits, done, &num_pulls);
    });
  }
  uint64_t num_evicted = 0;
  others.emplace_back([&] {
    while (!done.load()) {
      for (uint32_t p = 0; p < (*table)->num_partitions(); ++p) {
        const absl::StatusOr<EvictionResult> result =
            (*table)->Evict(PartitionIndex(p), (*table)->eviction(), 0);
        ASSERT_TRUE(result.ok()) << result.status();
        num_evicted += result->evicted_rows();
      }
    }
  });
  for (uint32_t i = 0; i < 2; ++i) {
    pushers.emplace_back([&, i] {
      PushAndCheck(**table, i, kPushes, kKeySpace, bits, &counts[i]);
    });
  }
  for (std::thread& pusher : pushers) pusher.join();
  done = true;
  for (std::thread& other : others) other.join();
  EXPECT_GT(num_pulls.load(), 0);
  EXPECT_GT(num_evicted, 0u);

  size_t num_rows = 0;
  size_t num_hot = 0;
  const absl::Status visited = (*table)->ForEachRow(
      [&](PartitionIndex, const SparseTable::RowView& row) {
        ++num_rows;
        const uint64_t key = static_cast<uint64_t>(row.key);
        num_hot += key < kHotKeys;
        // A cold row that was counted may have gone since, but not changed.
        ASSERT_EQ(row.embedding[0], counts[key % 2][row.key]) << "key " << key;
        ASSERT_EQ(row.show, row.embedding[0] * ShowOf(row.key));
      });
  EXPECT_TRUE(visited.ok()) << visited;
  size_t num_hot_pushed = 0;
  for (const auto& own : counts) {
    for (const auto& [key, count] : own) {
      num_hot_pushed += static_cast<uint64_t>(key) < kHotKeys;
    }
  }
  EXPECT_EQ(num_hot, num_hot_pushed);
  const SparseTableStats stats = (*table)->Stats();
  EXPECT_EQ(stats.rows, num_rows);
  EXPECT_EQ(stats.evicted_rows, num_evicted);
  EXPECT_EQ(stats.admitted_rows, num_rows + num_evicted);
  EXPECT_EQ(stats.demoted_rows > 0, memory_rows > 0);
  EXPECT_EQ(stats.promoted_rows > 0, memory_rows > 0);
}

// With two tiers rows move between them in every call.
INSTANTIATE_TEST_SUITE_P(PartitionBits, ConcurrencyTest,
                         testing::Values(std::tuple(0, 0), std::tuple(2, 0),
                                         std::tuple(8, 0), std::tuple(0, 150),
                                         std::tuple(2, 150), std::tuple(8, 3)));

TEST(ReaderWriterLockTest, WritersExcludeEachOtherAndReaders) {
  constexpr int kRounds = 20000;
  ReaderWriterLock lock;
  int a = 0;
  int b = 0;
  std::vector<std::thread> threads;
  for (int t = 0; t < 2; ++t) {
    threads.emplace_back([&] {
      for (int i = 0; i < kRounds; ++i) {
        lock.WriterLock();
        ++a;
        ++b;
        lock.WriterUnlock();
      }
    });
    threads.emplace_back([&] {
      int last = 0;
      for (int i = 0; i < kRounds; ++i) {
        lock.ReaderLock();
        const int seen_a = a;
        const int seen_b = b;
        lock.ReaderUnlock();
        ASSERT_EQ(seen_a, seen_b);
        ASSERT_GE(seen_a, last);
        last = seen_a;
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(a, 2 * kRounds);
}

TEST(ReaderWriterLockTest, SleepersAreWoken) {
  // Held for longer than anyone spins: by a reader while writers wait, by a
  // writer while both wait.
  for (int round = 0; round < 10; ++round) {
    ReaderWriterLock lock;
    const bool by_reader = round % 2 == 0;
    by_reader ? lock.ReaderLock() : lock.WriterLock();
    std::atomic<int> num_in{0};
    std::atomic<int> num_started{0};
    std::vector<std::thread> waiters;
    for (int t = 0; t < 4; ++t) {
      waiters.emplace_back([&, t] {
        num_started.fetch_add(1);
        if (by_reader || t % 2 == 0) {
          lock.WriterLock();
          num_in.fetch_add(1);
          lock.WriterUnlock();
        } else {
          lock.ReaderLock();
          num_in.fetch_add(1);
          lock.ReaderUnlock();
        }
      });
    }
    while (num_started.load() < 4) std::this_thread::yield();
    for (int i = 0; i < 10; ++i) std::this_thread::yield();
    EXPECT_EQ(num_in.load(), 0);
    by_reader ? lock.ReaderUnlock() : lock.WriterUnlock();
    for (std::thread& waiter : waiters) waiter.join();
    EXPECT_EQ(num_in.load(), 4);
  }
}

}  // namespace
}  // namespace oarlock::sparse_table
