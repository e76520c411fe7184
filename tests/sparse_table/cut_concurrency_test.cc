// Cuts while pushers, pullers and an evictor are at work, with an oracle:
// integer gradients, sgd at learning rate -1 and initial values 0 make every
// row count its pushes, so what a cut gives back must be the counts at its
// freeze, exactly. Meant for ThreadSanitizer as well.

#include <gtest/gtest.h>

#include <atomic>
#include <cstddef>
#include <map>
#include <memory>
#include <shared_mutex>
#include <string>
#include <thread>
#include <tuple>
#include <utility>
#include <vector>

#include "base/random.h"
#include "sparse_table/sparse_table.h"
#include "tests/sparse_table/cut_testing.h"
#include "tests/sparse_table/table_testing.h"

namespace oarlock::sparse_table {
namespace {

constexpr uint64_t kSeed = 41;
constexpr int kBits = 3;
constexpr size_t kDim = 4;
constexpr uint64_t kKeySpace = 6000;
constexpr int kPushers = 2;
constexpr int kCuts = 6;
// Pushes of each pusher between two cuts, at least.
constexpr int kPushesPerCut = 25;

// Keys below it are shown often, so that their rows stay; the others are
// evicted and created again all the time.
constexpr uint64_t kHotKeys = 3000;
constexpr float kHotShow = 4;

float ShowOf(Key key) {
  return static_cast<uint64_t>(key) < kHotKeys ? kHotShow : 1;
}

v1::TableConfig CountingConfig() {
  v1::TableConfig config = SparseConfig(kDim, SgdOptimizer(-1), v1::CTR);
  v1::SparseTableConfig* const sparse = config.mutable_sparse();
  sparse->mutable_initializer()->set_constant(0);
  // A hot row is above the limit from its first push on, a cold one from its
  // fourth.
  sparse->mutable_ctr()->set_non_click_coefficient(1);
  sparse->mutable_eviction()->set_score_min(kHotShow);
  return config;
}

std::unique_ptr<SparseTable> MakeTable(size_t memory_rows) {
  v1::TableConfig config = CountingConfig();
  const SparseTableOptions options = WithTiers(memory_rows, &config);
  absl::StatusOr<std::unique_ptr<SparseTable>> table =
      SparseTable::Create(config, kBits, options);
  EXPECT_TRUE(table.ok()) << table.status();
  return *std::move(table);
}

GroupedKeys RandomKeys(RandomSequence& random) {
  std::map<Key, bool> chosen;
  const size_t num_keys = 1 + random.Below(300);
  while (chosen.size() < num_keys) chosen[Key{random.Below(kKeySpace)}] = true;
  std::vector<Key> keys;
  for (const auto& [key, unused] : chosen) keys.push_back(key);
  return Grouped(std::move(keys), kBits);
}

using Counts = std::map<Key, uint64_t>;

// The table, and what was pushed to it so far. A push holds the gate shared
// and counts itself before it lets go: who holds it alone knows what belongs
// before a cut.
class Job {
 public:
  explicit Job(size_t memory_rows) : table(MakeTable(memory_rows)) {}

  void PushUntilDone(uint32_t worker) {
    RandomSequence random(kSeed + worker);
    for (uint64_t i = 1; !done.load(); ++i) {
      const GroupedKeys keys = RandomKeys(random);
      const std::vector<float> ones(keys.keys.size() * kDim, 1.0f);
      std::vector<float> shows;
      for (const Key key : keys.keys) shows.push_back(ShowOf(key));
      const PushStamp stamp = Stamp(worker, 1, i);
      SparsePush push;
      push.groups = keys.groups;
      push.keys = keys.keys.data();
      push.gradients = ones.data();
      push.shows = shows.data();
      push.stamps = {&stamp, 1};
      const std::shared_lock<std::shared_mutex> pushing(gate);
      ASSERT_TRUE(table->Push(push).ok());
      for (const Key key : keys.keys) ++counts[worker][key];
      num_pushes[worker].fetch_add(1);
    }
  }
  void PullUntilDone() {
    RandomSequence random(kSeed + 100);
    while (!done.load()) {
      const GroupedKeys keys = RandomKeys(random);
      const size_t n = keys.keys.size();
      std::vector<float> values(n * kDim), shows(n), clicks(n);
      ASSERT_TRUE(table
                      ->PullWithStatistics(keys.groups, keys.keys.data(),
                                           values.data(), shows.data(),
                                           clicks.data(), nullptr)
                      .ok());
      for (size_t i = 0; i < n; ++i) {
        ASSERT_EQ(shows[i], values[i * kDim] * ShowOf(keys.keys[i]));
      }
    }
  }
  void EvictUntilDone() {
    while (!done.load()) {
      for (uint32_t p = 0; p < table->num_partitions(); ++p) {
        ASSERT_TRUE(table->Evict(PartitionIndex(p), table->eviction(), 0).ok());
      }
      std::this_thread::yield();
    }
  }
  // Until each pusher has made some more pushes.
  void WaitForPushes() {
    for (std::atomic<int>& number : num_pushes) {
      const int wanted = number.load() + kPushesPerCut;
      while (number.load() < wanted) std::this_thread::yield();
    }
  }

  std::unique_ptr<SparseTable> table;
  std::shared_mutex gate;
  std::atomic<bool> done{false};
  std::atomic<int> num_pushes[kPushers] = {};
  Counts counts[kPushers];
};

// Saves all partitions in two threads.
void SavePartitions(SparseTable& table, Archive* archive) {
  std::atomic<uint32_t> next{0};
  std::vector<SavedRecords> records(table.num_partitions());
  const auto save = [&] {
    for (uint32_t p; (p = next++) < table.num_partitions();) {
      // Few rows a record, so that pushes come between.
      RecordKeeper keeper(1000);
      keeper.after_record = [] {
        std::this_thread::yield();
        return absl::OkStatus();
      };
      absl::StatusOr<SavedPartition> saved =
          table.cuts().SavePartition(PartitionIndex(p), keeper);
      ASSERT_TRUE(saved.ok()) << saved.status();
      keeper.records.partition = *std::move(saved);
      records[p] = std::move(keeper.records);
    }
  };
  std::thread other(save);
  save();
  other.join();
  for (uint32_t p = 0; p < table.num_partitions(); ++p) {
    archive->Add(PartitionIndex(p), std::move(records[p]));
  }
}

// A hot row has counted every push before the freeze and none after it; a cold
// one some of them, as a whole.
void ExpectCounts(const SparseTable& table, const Counts& counts) {
  size_t num_hot = 0;
  const absl::Status visited =
      table.ForEachRow([&](PartitionIndex, const SparseTable::RowView& row) {
        const auto found = counts.find(row.key);
        ASSERT_NE(found, counts.end());
        const uint64_t key = static_cast<uint64_t>(row.key);
        const float count = static_cast<float>(found->second);
        for (size_t d = 1; d < kDim; ++d) {
          ASSERT_EQ(row.embedding[d], row.embedding[0]) << "key " << key;
        }
        ASSERT_EQ(row.show, row.embedding[0] * ShowOf(row.key));
        if (key < kHotKeys) {
          ++num_hot;
          ASSERT_EQ(row.embedding[0], count) << "key " << key;
        } else {
          ASSERT_LE(row.embedding[0], count) << "key " << key;
        }
      });
  ASSERT_TRUE(visited.ok()) << visited;
  size_t num_hot_pushed = 0;
  for (const auto& [key, count] : counts) {
    num_hot_pushed += static_cast<uint64_t>(key) < kHotKeys;
  }
  EXPECT_EQ(num_hot, num_hot_pushed);
}

// Rows of a partition in memory, 0: all.
class CutConcurrencyTest : public testing::TestWithParam<size_t> {};

TEST_P(CutConcurrencyTest, EveryCutCountsThePushesBeforeItAndNoOthers) {
  SCOPED_TRACE(testing::Message() << "seed " << kSeed);
  const size_t memory_rows = GetParam();
  Job job(memory_rows);
  std::vector<std::thread> threads;
  for (uint32_t i = 0; i < kPushers; ++i) {
    threads.emplace_back([&, i] { job.PushUntilDone(i); });
  }
  threads.emplace_back([&] { job.PullUntilDone(); });
  threads.emplace_back([&] { job.EvictUntilDone(); });

  Archive archive;
  std::vector<std::pair<Archive, Counts>> cuts;
  uint64_t num_deltas = 0;
  for (int cut = 0; cut < kCuts && !HasFatalFailure(); ++cut) {
    job.WaitForPushes();
    Counts counts;
    {
      const std::unique_lock<std::shared_mutex> alone(job.gate);
      for (const Counts& of_worker : job.counts) {
        for (const auto& [key, count] : of_worker) counts[key] += count;
      }
      job.table->cuts().Freeze(cut == 3 ? SaveKind::kFull : SaveKind::kChanges);
    }
    SavePartitions(*job.table, &archive);
    job.table->cuts().Thaw(true);
    for (const auto& [index, chain] : archive.chains()) {
      num_deltas += !chain.back().partition.full;
    }
    cuts.emplace_back(archive, std::move(counts));
  }
  job.done = true;
  for (std::thread& thread : threads) thread.join();
  if (HasFatalFailure()) return;

  EXPECT_EQ(num_deltas, (kCuts - 2u) << kBits);
  for (size_t i = 0; i < cuts.size(); ++i) {
    SCOPED_TRACE(testing::Message() << "cut " << i);
    const auto restored = MakeTable(i % 2 == 0 ? memory_rows : 0);
    // In several threads, as a server does.
    std::atomic<uint32_t> next{0};
    const auto restore = [&] {
      for (uint32_t p; (p = next++) < restored->num_partitions();) {
        const absl::Status status =
            cuts[i].first.Restore(PartitionIndex(p), *restored);
        ASSERT_TRUE(status.ok()) << status;
      }
    };
    std::thread other(restore);
    restore();
    other.join();
    ExpectCounts(*restored, cuts[i].second);
  }
}

INSTANTIATE_TEST_SUITE_P(MemoryRows, CutConcurrencyTest,
                         testing::Values(0, 3, 150));

}  // namespace
}  // namespace oarlock::sparse_table
