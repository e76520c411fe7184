#include "sparse_table/sparse_table.h"

#include <gtest/gtest.h>

#include <functional>
#include <map>
#include <string>

#include "base/random.h"
#include "optim/initializer.h"
#include "sparse_table/rows/arena.h"
#include "tests/sparse_table/table_testing.h"

namespace oarlock::sparse_table {
namespace {

std::unique_ptr<SparseTable> MakeTable(const v1::TableConfig& config,
                                       int partition_bits,
                                       uint64_t memory_bytes_max = 1 << 30) {
  absl::StatusOr<std::unique_ptr<SparseTable>> table = SparseTable::Create(
      config, partition_bits, {.memory_bytes_max = memory_bytes_max});
  EXPECT_TRUE(table.ok()) << table.status();
  return *std::move(table);
}

std::vector<float> PullKeys(const SparseTable& table, const GroupedKeys& keys) {
  std::vector<float> values(keys.keys.size() * table.config().sparse().dim());
  EXPECT_TRUE(
      table.Pull(keys.groups, keys.keys.data(), values.data(), nullptr).ok());
  return values;
}

// Pushes `gradient` to every float of every key.
absl::StatusOr<SparsePushResult> PushConstant(
    SparseTable& table, const GroupedKeys& keys, float gradient,
    absl::Span<const PushStamp> stamps, uint32_t logical_time = 0) {
  const std::vector<float> gradients(
      keys.keys.size() * table.config().sparse().dim(), gradient);
  SparsePush push;
  push.groups = keys.groups;
  push.keys = keys.keys.data();
  push.gradients = gradients.data();
  push.stamps = stamps;
  push.logical_time = logical_time;
  return table.Push(push);
}

TEST(SparseTableTest, APullCreatesAndChangesNothing) {
  const std::unique_ptr<SparseTable> table =
      MakeTable(SparseConfig(4, AdagradOptimizer()), 4);
  const GroupedKeys keys = Grouped({Key{1}, Key{2}, Key{3}}, 4);
  const std::vector<float> first = PullKeys(*table, keys);
  EXPECT_EQ(PullKeys(*table, keys), first);
  EXPECT_EQ(table->Stats().rows, 0u);
  EXPECT_EQ(table->Stats().pulled_rows, 6u);
  EXPECT_NE(first, std::vector<float>(first.size(), 0.0f));
}

TEST(SparseTableTest, ARowBeginsAsAPullShowedItBefore) {
  // The learning rate 0 leaves a created row at its initial values.
  const std::unique_ptr<SparseTable> table =
      MakeTable(SparseConfig(7, SgdOptimizer(0)), 4);
  const GroupedKeys keys = Grouped({Key{1}, Key{~uint64_t{0}}, Key{3}}, 4);
  const std::vector<float> before = PullKeys(*table, keys);
  const PushStamp stamp = Stamp(0, 1, 1);
  ASSERT_TRUE(PushConstant(*table, keys, 1, {&stamp, 1}).ok());
  EXPECT_EQ(table->Stats().rows, 3u);
  EXPECT_EQ(PullKeys(*table, keys), before);
}

TEST(SparseTableTest, InitialValuesDoNotDependOnTheNumberOfPartitions) {
  std::map<Key, std::vector<float>> first;
  for (const int bits : {0, 1, 8, 16}) {
    const std::unique_ptr<SparseTable> table =
        MakeTable(SparseConfig(10, AdagradOptimizer()), bits);
    std::vector<Key> some;
    for (uint64_t i = 0; i < 100; ++i) some.push_back(Key{i * i});
    const GroupedKeys keys = Grouped(some, bits);
    const std::vector<float> values = PullKeys(*table, keys);
    for (size_t i = 0; i < keys.keys.size(); ++i) {
      const std::vector<float> row(values.begin() + i * 10,
                                   values.begin() + (i + 1) * 10);
      EXPECT_EQ(first.try_emplace(keys.keys[i], row).first->second, row);
    }
  }
}

TEST(SparseTableTest, ARepeatedPushIsAppliedOnceInEachPartition) {
  constexpr int kBits = 3;
  const std::unique_ptr<SparseTable> table =
      MakeTable(SparseConfig(2, SgdOptimizer(-1)), kBits);
  std::vector<Key> some;
  for (uint64_t i = 0; i < 64; ++i) some.push_back(Key{i});
  const GroupedKeys all = Grouped(some, kBits);
  const GroupedKeys half = Grouped({some.begin(), some.begin() + 4}, kBits);
  ASSERT_LT(half.groups.size(), all.groups.size());
  const PushStamp stamp = Stamp(1, 5, 1);
  ASSERT_TRUE(PushConstant(*table, half, 1, {&stamp, 1}).ok());
  const std::vector<float> once = PullKeys(*table, half);
  absl::StatusOr<SparsePushResult> again =
      PushConstant(*table, all, 1, {&stamp, 1});
  ASSERT_TRUE(again.ok()) << again.status();
  EXPECT_EQ(again->duplicate_groups, half.groups.size());
  EXPECT_EQ(PullKeys(*table, half), once);
  // The same sequence of another generation is another push.
  const PushStamp other = Stamp(1, 6, 1);
  EXPECT_FALSE(table->HasApplied(all.groups[0].partition, other));
  again = PushConstant(*table, all, 1, {&other, 1});
  EXPECT_EQ(again->duplicate_groups, 0u);
}

TEST(SparseTableTest, ARoundIsADuplicateOnlyWhenAllItsPushesAre) {
  const std::unique_ptr<SparseTable> table =
      MakeTable(SparseConfig(1, SgdOptimizer(-1)), 0);
  const GroupedKeys keys = Grouped({Key{9}}, 0);
  const PushStamp a = Stamp(0, 1, 1), b = Stamp(1, 1, 1);
  ASSERT_TRUE(PushConstant(*table, keys, 1, {&a, 1}).ok());
  EXPECT_EQ(PushConstant(*table, keys, 1, {a, b})->duplicate_groups, 0u);
  EXPECT_TRUE(table->HasApplied(PartitionIndex(0), b));
  EXPECT_EQ(PushConstant(*table, keys, 1, {a, b})->duplicate_groups, 1u);
  EXPECT_EQ(PushConstant(*table, keys, 1, {&b, 1})->duplicate_groups, 1u);
}

TEST(SparseTableTest, AKeyNamedTwiceInAPushStillHasOneRow) {
  const std::unique_ptr<SparseTable> table =
      MakeTable(SparseConfig(1, SgdOptimizer(-1)), 0);
  const GroupedKeys keys = Grouped({Key{9}, Key{9}, Key{8}, Key{9}}, 0);
  const PushStamp stamp = Stamp(0, 1, 1);
  const float before = PullKeys(*table, keys)[0];
  ASSERT_TRUE(PushConstant(*table, keys, 1, {&stamp, 1}).ok());
  EXPECT_EQ(table->Stats().rows, 2u);
  EXPECT_FLOAT_EQ(PullKeys(*table, keys)[0], before + 3);
}

TEST(SparseTableTest, APushOfNoKeysIsRememberedAndRaisesTheVersion) {
  const std::unique_ptr<SparseTable> table =
      MakeTable(SparseConfig(1, SgdOptimizer(-1)), 2);
  GroupedKeys keys;
  keys.groups = {{PartitionIndex(1), 0}, {PartitionIndex(3), 0}};
  const PushStamp stamp = Stamp(0, 1, 1);
  ASSERT_TRUE(PushConstant(*table, keys, 1, {&stamp, 1}).ok());
  EXPECT_TRUE(table->HasApplied(PartitionIndex(3), stamp));
  EXPECT_FALSE(table->HasApplied(PartitionIndex(2), stamp));
  uint64_t versions[2] = {};
  EXPECT_TRUE(table->Pull(keys.groups, nullptr, nullptr, versions).ok());
  EXPECT_EQ(versions[0], 1u);
  EXPECT_EQ(PushConstant(*table, keys, 1, {&stamp, 1})->duplicate_groups, 2u);
}

TEST(SparseTableTest, LastTouchSurvivesMoreBitsThanTheHeaderHas) {
  const std::unique_ptr<SparseTable> table =
      MakeTable(SparseConfig(1, SgdOptimizer(1)), 0);
  const uint32_t kEarly = (1u << 24) - 2, kLate = (1u << 24) + 5;
  PushStamp stamp = Stamp(0, 1, 1);
  ASSERT_TRUE(
      PushConstant(*table, Grouped({Key{1}}, 0), 1, {&stamp, 1}, kEarly).ok());
  stamp = Stamp(0, 1, 2);
  ASSERT_TRUE(
      PushConstant(*table, Grouped({Key{2}}, 0), 1, {&stamp, 1}, kLate).ok());
  std::map<Key, uint32_t> touches;
  const absl::Status visited =
      table->ForEachRow([&](PartitionIndex, const SparseTable::RowView& row) {
        touches[row.key] = row.last_touch;
      });
  EXPECT_TRUE(visited.ok()) << visited;
  EXPECT_EQ(touches[Key{1}], kEarly);
  EXPECT_EQ(touches[Key{2}], kLate);
}

TEST(SparseTableTest, RowsAreVisitedInTheOrderOfTheirCreation) {
  const std::unique_ptr<SparseTable> table =
      MakeTable(SparseConfig(100, AdagradOptimizer()), 0);
  std::vector<Key> created;
  RandomSequence random(4);
  for (uint64_t step = 1; step <= 40; ++step) {
    std::vector<Key> keys;
    for (int i = 0; i < 25; ++i) keys.push_back(Key{random()});
    created.insert(created.end(), keys.begin(), keys.end());
    const PushStamp stamp = Stamp(0, 1, step);
    ASSERT_TRUE(PushConstant(*table, Grouped(keys, 0), 1, {&stamp, 1}).ok());
  }
  std::vector<Key> seen;
  const absl::Status visited =
      table->ForEachRow([&](PartitionIndex, const SparseTable::RowView& row) {
        seen.push_back(row.key);
      });
  EXPECT_TRUE(visited.ok()) << visited;
  EXPECT_EQ(seen, created);
}

TEST(SparseTableTest, AFullTableRefusesNewRowsButUpdatesOldOnes) {
  constexpr int kBits = 2;
  const std::unique_ptr<SparseTable> table = MakeTable(
      SparseConfig(1, SgdOptimizer(-1)), kBits, 16 * Arena::kChunkBytes);
  std::vector<Key> old_keys;
  absl::StatusOr<SparsePushResult> result;
  uint64_t sequence = 0;
  uint64_t next_key = 0;
  GroupedKeys keys;
  for (;;) {
    std::vector<Key> batch;
    for (int i = 0; i < 1000; ++i) batch.push_back(Key{next_key++});
    keys = Grouped(batch, kBits);
    const PushStamp stamp = Stamp(0, 1, ++sequence);
    result = PushConstant(*table, keys, 1, {&stamp, 1});
    if (!result.ok()) break;
    old_keys.insert(old_keys.end(), batch.begin(), batch.end());
    ASSERT_LT(old_keys.size(), 1u << 20);
  }
  EXPECT_EQ(result.status().code(), absl::StatusCode::kResourceExhausted);
  EXPECT_NE(result.status().message().find("memory is full"), std::string::npos)
      << result.status();
  EXPECT_GT(old_keys.size(), 20000u);
  EXPECT_LE(table->Stats().bytes, 16 * Arena::kChunkBytes + (1 << 20));

  // Of the failed push each partition has all or nothing, and knows which.
  const PushStamp failed = Stamp(0, 1, sequence);
  std::map<uint32_t, uint64_t> rows_of_failed;
  const absl::Status visited =
      table->ForEachRow([&](PartitionIndex p, const SparseTable::RowView& row) {
        if (static_cast<uint64_t>(row.key) >= next_key - 1000) {
          ++rows_of_failed[p.value()];
        }
      });
  EXPECT_TRUE(visited.ok()) << visited;
  for (const KeyGroup& group : keys.groups) {
    EXPECT_EQ(rows_of_failed[group.partition.value()],
              table->HasApplied(group.partition, failed) ? group.num_keys : 0);
  }

  const GroupedKeys old_grouped = Grouped(old_keys, kBits);
  const std::vector<float> before = PullKeys(*table, old_grouped);
  const PushStamp stamp = Stamp(0, 1, sequence + 1);
  result = PushConstant(*table, old_grouped, 1, {&stamp, 1});
  ASSERT_TRUE(result.ok()) << result.status();
  const std::vector<float> after = PullKeys(*table, old_grouped);
  for (size_t i = 0; i < before.size(); ++i) {
    ASSERT_FLOAT_EQ(after[i], before[i] + 1);
  }
}

TEST(SparseTableTest, MemoryPerKeyStaysNearThePayload) {
  const std::unique_ptr<SparseTable> table =
      MakeTable(SparseConfig(16, AdagradOptimizer()), 4);
  for (uint64_t step = 0; step < 100; ++step) {
    std::vector<Key> keys;
    for (uint64_t i = 0; i < 5000; ++i) keys.push_back(Key{step * 5000 + i});
    const PushStamp stamp = Stamp(0, 1, step + 1);
    ASSERT_TRUE(PushConstant(*table, Grouped(keys, 4), 1, {&stamp, 1}).ok());
    const SparseTableStats stats = table->Stats();
    if (stats.rows < 100000) continue;
    // Payload: 16 weights and their sums of squares.
    EXPECT_LT(static_cast<double>(stats.bytes),
              1.35 * 128 * static_cast<double>(stats.rows))
        << stats.rows << " rows";
  }
  EXPECT_EQ(table->Stats().row_bytes, 144u);
}

TEST(SparseTableTest, WhatIsNoSparseTableIsRefused) {
  const auto refused = [](const v1::TableConfig& config, int bits,
                          const std::string& why) {
    const absl::Status status = SparseTable::Create(config, bits).status();
    EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument);
    EXPECT_NE(status.message().find(why), std::string::npos) << status;
  };
  v1::TableConfig dense = SparseConfig(1, SgdOptimizer(1));
  dense.mutable_dense();
  refused(dense, 0, "not a sparse table");
  refused(SparseConfig(0, SgdOptimizer(1)), 0, "dim is 0");
  refused(SparseConfig(16384, SgdOptimizer(1)), 0, "dim is 16384");
  refused(SparseConfig(0xffffffff, SgdOptimizer(1)), 0, "dim is 4294967295");
  refused(SparseConfig(1, SgdOptimizer(1)), 17, "partition_bits is 17");
  refused(SparseConfig(1, SgdOptimizer(1)), -1, "partition_bits is -1");
  refused(SparseConfig(1, v1::OptimizerConfig()), 0, "no rule");
  v1::TableConfig config = SparseConfig(1, SgdOptimizer(1));
  config.mutable_sparse()->mutable_initializer()->set_uniform_range(-1);
  refused(config, 0, "uniform_range");
}

TEST(SparseTableTest, RulesThatMakeNoSenseAreRefused) {
  const auto refused =
      [](const std::function<void(v1::SparseTableConfig*)>& set,
         const std::string& why, v1::Accessor accessor = v1::CTR) {
        v1::TableConfig config = SparseConfig(4, SgdOptimizer(1), accessor);
        set(config.mutable_sparse());
        const absl::Status status = SparseTable::Create(config, 4).status();
        EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument) << why;
        EXPECT_NE(status.message().find(why), std::string::npos) << status;
      };
  refused([](auto* c) { c->set_extended_dim(4); },
          "extended_dim is 4 of dim 4");
  refused([](auto* c) { c->set_extended_threshold(-1); },
          "extended_threshold is -1");
  refused([](auto* c) { c->set_extended_threshold(1); }, "accessor keeps none",
          v1::PLAIN);
  refused([](auto* c) { c->mutable_extended_optimizer(); }, "no rule");
  refused([](auto* c) { c->mutable_ctr()->set_click_coefficient(-1); },
          "click_coefficient is -1");
  refused([](auto* c) { c->mutable_ctr()->set_decay_rate(1.5f); },
          "decay_rate is 1.5");
  refused([](auto* c) { c->mutable_admission()->mutable_count(); },
          "count is 0");
  refused(
      [](auto* c) {
        c->mutable_admission()->mutable_probability()->set_probability(1);
      },
      "probability is 1");
  refused([](auto* c) { c->mutable_admission()->mutable_show_click(); },
          "score is 0");
  refused(
      [](auto* c) {
        c->mutable_admission()->mutable_show_click()->set_score(1);
      },
      "needs accessor CTR", v1::PLAIN);
  refused(
      [](auto* c) {
        c->mutable_admission()->mutable_count()->set_pushes(2);
        c->mutable_admission()->set_sketch_bytes(1000);
      },
      "1000 sketch_bytes");
  refused([](auto* c) { c->mutable_eviction()->set_idle_ticks(1u << 24); },
          "idle_ticks is 16777216");
  refused([](auto* c) { c->mutable_eviction()->set_rows_max(15); },
          "rows_max is 15");
  refused([](auto* c) { c->mutable_eviction()->set_low_mark(2); },
          "low_mark is 2");
  refused([](auto* c) { c->mutable_eviction()->set_score_min(1); },
          "accessor plain", v1::PLAIN);
}

TEST(SparseTableTest, EvictedCellsAreUsedAgain) {
  constexpr int kBits = 1;
  const std::unique_ptr<SparseTable> table =
      MakeTable(SparseConfig(8, AdagradOptimizer()), kBits);
  v1::EvictionConfig eviction;
  eviction.set_idle_ticks(1);
  const absl::StatusOr<EvictionLimits> limits = table->LimitsOf(eviction);
  ASSERT_TRUE(limits.ok()) << limits.status();
  uint64_t bytes = 0;
  for (uint32_t round = 1; round <= 20; ++round) {
    std::vector<Key> keys;
    for (uint64_t i = 0; i < 5000; ++i) keys.push_back(Key{round * 10000 + i});
    const PushStamp stamp = Stamp(0, 1, round);
    ASSERT_TRUE(
        PushConstant(*table, Grouped(keys, kBits), 1, {&stamp, 1}, round).ok());
    ASSERT_EQ(table->Stats().rows, 5000u);
    if (round == 2) bytes = table->Stats().bytes;
    for (uint32_t p = 0; p < table->num_partitions(); ++p) {
      EXPECT_TRUE(table->Evict(PartitionIndex(p), *limits, round + 1).ok());
    }
    ASSERT_EQ(table->Stats().rows, 0u);
  }
  EXPECT_LE(table->Stats().bytes, bytes);
}

}  // namespace
}  // namespace oarlock::sparse_table
