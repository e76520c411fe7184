#include "pserver/table/table_registry.h"

#include <gmock/gmock.h>

#include <algorithm>
#include <bit>
#include <functional>
#include <map>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "base/clock.h"
#include "base/mix.h"
#include "base/process/free_memory.h"
#include "cluster/partition_map.h"
#include "gtest/gtest.h"
#include "tests/pserver/service/push_testing.h"

namespace oarlock::pserver {
namespace {

class TableRegistryTest : public ::testing::Test {
 protected:
  const FakeClock clock_;
  TableRegistry registry_{
      cluster::PartitionMap::Even(1u << kTestPartitionBits, 1), ServerIndex(0),
      clock_};
};

TEST_F(TableRegistryTest, TablesAreFoundById) {
  EXPECT_EQ(registry_.Find(TableId(1)).status().code(),
            absl::StatusCode::kNotFound);
  ASSERT_TRUE(registry_.Create(SparseConfig(4, 1)).ok());
  ASSERT_TRUE(registry_.Create(DenseConfig(100, 10, 1)).ok());
  const auto sparse = registry_.Find(TableId(1));
  ASSERT_TRUE(sparse.ok());
  EXPECT_NE((*sparse)->sparse, nullptr);
  EXPECT_EQ((*sparse)->dense, nullptr);
  EXPECT_NE((*sparse)->aggregator, nullptr);
  const auto dense = registry_.Find(TableId(2));
  ASSERT_TRUE(dense.ok());
  EXPECT_EQ((*dense)->dense->num_blocks(), 10u);
}

TEST_F(TableRegistryTest, SameConfigurationAgainIsOkAndKeepsTheTable) {
  ASSERT_TRUE(registry_.Create(SparseConfig(4, 1)).ok());
  TableEntry* const first = *registry_.Find(TableId(1));
  EXPECT_TRUE(registry_.Create(SparseConfig(4, 1)).ok());
  EXPECT_EQ(*registry_.Find(TableId(1)), first);
}

TEST_F(TableRegistryTest, OtherConfigurationIsRefusedInOneLineWithBoth) {
  ASSERT_TRUE(registry_.Create(SparseConfig(4, 1)).ok());
  v1::TableConfig same_id = SparseConfig(16, 1);
  same_id.set_name("other");
  v1::TableConfig same_name = SparseConfig(16, 1);
  same_name.set_id(9);
  for (const v1::TableConfig& config :
       {SparseConfig(16, 1), same_id, same_name}) {
    const absl::Status status = registry_.Create(config);
    EXPECT_EQ(status.code(), absl::StatusCode::kAlreadyExists);
    EXPECT_TRUE(absl::StrContains(status.message(), "sparse.dim: 4 -> 16"))
        << status;
    EXPECT_FALSE(absl::StrContains(status.message(), "\n")) << status;
  }
  EXPECT_FALSE(registry_.Find(TableId(9)).ok());
}

TEST_F(TableRegistryTest, WrongConfigurationsAreInvalid) {
  const std::vector<std::function<void(v1::TableConfig*)>> spoilers = {
      [](v1::TableConfig* c) { c->set_id(0); },
      [](v1::TableConfig* c) { c->clear_name(); },
      [](v1::TableConfig* c) { c->set_name("two\nlines"); },
      [](v1::TableConfig* c) { c->set_name(std::string(256, 'n')); },
      [](v1::TableConfig* c) { c->clear_mode(); },
      [](v1::TableConfig* c) {
        c->set_mode(v1::SYNC);
        c->clear_reduction();
      },
      [](v1::TableConfig* c) { c->clear_sparse(); },
      [](v1::TableConfig* c) { c->mutable_sparse()->set_dim(0); },
      [](v1::TableConfig* c) { c->clear_optimizer(); },
  };
  for (size_t i = 0; i < spoilers.size(); ++i) {
    v1::TableConfig config = SparseConfig(4, 1);
    spoilers[i](&config);
    EXPECT_EQ(registry_.Create(config).code(),
              absl::StatusCode::kInvalidArgument)
        << "spoiler " << i;
  }
  EXPECT_TRUE(registry_.Describe().empty());
}

TEST_F(TableRegistryTest, NamesAndConfigurationsHaveALimit) {
  v1::TableConfig config = SparseConfig(4, 1);
  for (const size_t size :
       {TableRegistry::kMaxNameBytes - 1, TableRegistry::kMaxNameBytes}) {
    config.set_id(config.id() + 1);
    config.set_name(std::string(size, 'n'));
    EXPECT_TRUE(registry_.Create(config).ok()) << size;
  }
  v1::TableConfig dense = DenseConfig(4, 4, 1);
  dense.mutable_dense()->add_parameters()->set_name(
      std::string(TableRegistry::kMaxConfigBytes, 'p'));
  EXPECT_EQ(registry_.Create(dense).code(), absl::StatusCode::kInvalidArgument);
}

TEST_F(TableRegistryTest, ATableThatCannotFitIsRefused) {
  // 1 TiB in blocks of 16 MiB.
  const absl::Status status = registry_.Create(DenseConfig(
      uint64_t{1} << 38, sparse_table::DenseTable::kMaxBlockFloats, 1));
  EXPECT_EQ(status.code(), absl::StatusCode::kResourceExhausted) << status;
}

TEST_F(TableRegistryTest, SketchesThatCannotFitAreRefused) {
  // Of each as much as a third of the memory would have, made when needed.
  v1::TableConfig config = SparseConfig(4, -1);
  config.mutable_sparse()->mutable_admission()->mutable_count()->set_pushes(2);
  const uint64_t third = std::bit_floor(FreeMemoryBytes() / 3);
  config.mutable_sparse()->mutable_admission()->set_sketch_bytes(
      std::min(third, uint64_t{1} << (30 + kTestPartitionBits)));
  absl::Status status;
  uint32_t id = 0;
  for (; status.ok() && id < 1000; ++id) {
    config.set_id(id + 1);
    config.set_name(absl::StrCat("table", id));
    status = registry_.Create(config);
  }
  EXPECT_EQ(status.code(), absl::StatusCode::kResourceExhausted) << status;
  EXPECT_THAT(std::string(status.message()),
              testing::HasSubstr("sketches of all tables"));
  EXPECT_GT(id, 1u);
}

TEST_F(TableRegistryTest, ModeDecidesWhatAPushMeans) {
  ASSERT_TRUE(registry_.Create(SparseConfig(1, -1, v1::ASYNC)).ok());
  ASSERT_TRUE(registry_.Create(DenseConfig(2, 2, -1, v1::SYNC)).ok());
  EXPECT_EQ(registry_.SetRoundMember(WorkerIndex(0), Generation(1), true), 0u);
  EXPECT_EQ(registry_.SetRoundMember(WorkerIndex(1), Generation(1), true), 0u);
  int num_responses = 0;
  const auto count = [&](absl::StatusOr<PushOutcome> outcome) {
    EXPECT_TRUE(outcome.ok()) << outcome.status();
    ++num_responses;
  };
  (*registry_.Find(TableId(1)))
      ->aggregator->PushSparse(
          SparsePushOf(PushHeader(0, 1, 1, 1), {{Key{1}, {1}}}), count);
  EXPECT_EQ(num_responses, 1);
  Aggregator& rounds = *(*registry_.Find(TableId(2)))->aggregator;
  rounds.PushDense(
      DensePushOf(PushHeader(0, 1, 1, 1), {{BlockIndex(0), {1, 1}}}), count);
  EXPECT_EQ(num_responses, 1);
  EXPECT_EQ(registry_.HeldPushes(), 1u);
  EXPECT_EQ(registry_.SetRoundMember(WorkerIndex(1), Generation(1), false), 1u)
      << "the round that its leaving completed";
  EXPECT_EQ(num_responses, 2);
  EXPECT_EQ(registry_.HeldPushes(), 0u);
}

TEST_F(TableRegistryTest, LaterTablesKnowTheRoundMembers) {
  registry_.SetRoundMember(WorkerIndex(0), Generation(2), true);
  registry_.SetRoundMember(WorkerIndex(0), Generation(1), false);  // Old news.
  registry_.SetRoundMember(WorkerIndex(1), Generation(1), true);
  registry_.SetRoundMember(WorkerIndex(1), Generation(1), false);
  ASSERT_TRUE(registry_.Create(SparseConfig(1, -1, v1::SYNC)).ok());
  bool answered = false;
  (*registry_.Find(TableId(1)))
      ->aggregator->PushSparse(
          SparsePushOf(PushHeader(0, 2, 1, 1), {{Key{1}, {1}}}),
          [&](absl::StatusOr<PushOutcome> outcome) {
            answered = outcome.ok();
          });
  EXPECT_TRUE(answered) << "worker 0 is a member, and the only one";
}

TEST_F(TableRegistryTest, DescribeShowsWhatTablesHold) {
  ASSERT_TRUE(registry_.Create(DenseConfig(100, 10, 1)).ok());
  ASSERT_TRUE(registry_.Create(SparseConfig(4, -1)).ok());
  (*registry_.Find(TableId(1)))
      ->aggregator->PushSparse(
          SparsePushOf(PushHeader(0, 1, 1), RandomGradients(1, 9, 1000, 4)),
          [](absl::StatusOr<PushOutcome>) {});
  const std::vector<v1::TableStatus> tables = registry_.Describe();
  ASSERT_EQ(tables.size(), 2u);
  EXPECT_EQ(tables[0].config().name(), "embedding");
  EXPECT_EQ(tables[0].rows(), 9u);
  EXPECT_EQ(tables[0].version(), 1u);
  EXPECT_GE(tables[0].row_bytes(), 4 * sizeof(float));
  EXPECT_EQ(tables[1].rows(), 10u);
  EXPECT_EQ(tables[1].bytes(), 400u);
}

TEST_F(TableRegistryTest, DescribeTellsOfEachOwnPartitionIfAsked) {
  ASSERT_TRUE(registry_.Create(SparseConfig(4, -1)).ok());
  TableEntry* const entry = *registry_.Find(TableId(1));
  const SparseGradients gradients = RandomGradients(7, 300, 100000, 4);
  entry->aggregator->PushSparse(SparsePushOf(PushHeader(0, 1, 1), gradients),
                                [](absl::StatusOr<PushOutcome>) {});
  std::map<uint32_t, uint64_t> expected;
  for (const auto& [key, gradient] : gradients) {
    ++expected[PartitionOfMix(Mix(key), kTestPartitionBits).value()];
  }
  EXPECT_EQ(registry_.Describe()[0].partitions_size(), 0);
  const v1::TableStatus table = registry_.Describe(1u << kTestPartitionBits)[0];
  std::map<uint32_t, uint64_t> rows;
  std::map<uint32_t, uint64_t> pushed_rows;
  for (const v1::PartitionStatus& partition : table.partitions()) {
    rows[partition.partition()] = partition.rows();
    pushed_rows[partition.partition()] = partition.pushed_rows();
    EXPECT_EQ(partition.pulled_rows(), 0u);
  }
  EXPECT_EQ(rows, expected);
  EXPECT_EQ(pushed_rows, expected);
}

TEST_F(TableRegistryTest, AStatusHasAsManyPartitionsAsAResponseHolds) {
  for (uint32_t id = 1; id <= 3; ++id) {
    v1::TableConfig config = SparseConfig(4, -1);
    config.set_id(id);
    config.set_name(absl::StrCat("table", id));
    ASSERT_TRUE(registry_.Create(config).ok());
  }
  constexpr size_t kPartitions = 1u << kTestPartitionBits;
  const auto with_partitions = [this](size_t max_partitions) {
    int tables = 0;
    for (const v1::TableStatus& table : registry_.Describe(max_partitions)) {
      EXPECT_EQ(table.partitions().empty(), table.partitions_left_out());
      tables += !table.partitions().empty();
    }
    return tables;
  };
  EXPECT_EQ(with_partitions(2 * kPartitions - 1), 1);
  EXPECT_EQ(with_partitions(2 * kPartitions), 2);
  EXPECT_EQ(with_partitions(2 * kPartitions + 1), 2);
  EXPECT_EQ(with_partitions(3 * kPartitions), 3);
  // Who does not ask misses none.
  EXPECT_FALSE(registry_.Describe()[0].partitions_left_out());
}

TEST_F(TableRegistryTest, ConfigurationsHaveALimitTogether) {
  size_t bytes = 0;
  absl::Status status;
  uint32_t id = 0;
  while (status.ok()) {
    v1::TableConfig config = DenseConfig(5000, 10, 1);
    config.set_id(++id);
    config.set_name(absl::StrCat("table", id));
    config.mutable_dense()->clear_parameters();
    for (int i = 0; i < 5000; ++i) {
      v1::DenseParameter* parameter = config.mutable_dense()->add_parameters();
      parameter->set_name(absl::StrCat(std::string(180, 'p'), i));
      parameter->set_offset(i);
      parameter->add_shape(1);
      parameter->mutable_initializer()->set_constant(0);
    }
    ASSERT_LE(config.ByteSizeLong(), TableRegistry::kMaxConfigBytes);
    status = registry_.Create(config);
    if (status.ok()) bytes += config.ByteSizeLong();
  }
  EXPECT_EQ(status.code(), absl::StatusCode::kResourceExhausted) << status;
  EXPECT_LE(bytes, TableRegistry::kMaxConfigBytesOfAll);
  EXPECT_GT(bytes, TableRegistry::kMaxConfigBytesOfAll -
                       TableRegistry::kMaxConfigBytes);
}

TEST_F(TableRegistryTest, HotKeysOfAllTablesFitAResponse) {
  for (uint32_t id = 1; id <= 2; ++id) {
    v1::TableConfig config = SparseConfig(4, -1);
    config.set_id(id);
    config.set_name(absl::StrCat("table", id));
    ASSERT_TRUE(registry_.Create(config).ok());
  }
  constexpr size_t kHalf = TableRegistry::kMaxHotKeysOfAll / 2;
  EXPECT_TRUE(registry_.DescribeHotKeys("", kHalf - 1).ok());
  EXPECT_TRUE(registry_.DescribeHotKeys("", kHalf).ok());
  EXPECT_EQ(registry_.DescribeHotKeys("", kHalf + 1).status().code(),
            absl::StatusCode::kOutOfRange);
  EXPECT_TRUE(registry_.DescribeHotKeys("table1", kHalf + 1).ok());
}

TEST_F(TableRegistryTest, HotKeysAreThoseOfTheSparseTables) {
  ASSERT_TRUE(registry_.Create(DenseConfig(100, 10, 1)).ok());
  ASSERT_TRUE(registry_.Create(SparseConfig(4, -1)).ok());
  TableEntry* const entry = *registry_.Find(TableId(1));
  entry->hot_keys->pushes().Add(std::vector<Key>(1024, Key{3}));
  const auto all = registry_.DescribeHotKeys("", 1);
  ASSERT_TRUE(all.ok()) << all.status();
  ASSERT_EQ(all->size(), 1u);
  EXPECT_EQ((*all)[0].name(), "embedding");
  ASSERT_EQ((*all)[0].keys_size(), 1);
  const v1::HotKey& key = (*all)[0].keys(0);
  EXPECT_EQ(key.key(), 3u);
  EXPECT_EQ(key.partition(),
            PartitionOfMix(Mix(Key{3}), kTestPartitionBits).value());
  EXPECT_EQ(key.pushes().rows(), 1024);
  EXPECT_EQ(key.pulls().rows(), 0);
  EXPECT_EQ(registry_.DescribeHotKeys("dense", 1).status().code(),
            absl::StatusCode::kNotFound);
}

TEST_F(TableRegistryTest, ConcurrentCreationsMakeOneTable) {
  std::vector<TableEntry*> found(4);
  std::vector<std::thread> threads;
  for (size_t i = 0; i < found.size(); ++i) {
    threads.emplace_back([&, i] {
      EXPECT_TRUE(registry_.Create(SparseConfig(4, 1)).ok());
      found[i] = *registry_.Find(TableId(1));
    });
  }
  for (std::thread& thread : threads) thread.join();
  for (TableEntry* entry : found) EXPECT_EQ(entry, found[0]);
}

TEST_F(TableRegistryTest, APushThatFoundTheOldConfigurationIsSentAgain) {
  const v1::TableConfig before = SparseConfig(1, -1);
  v1::TableConfig after = before;
  after.mutable_optimizer()->set_learning_rate(-2);
  TableEntry* const old = *registry_.CreateRestored(before);
  const wire::PushSparseRequestView push =
      SparsePushOf(PushHeader(0, 1, 1), {{Key{1}, {1}}});
  absl::Status result;
  const auto note = [&](absl::StatusOr<PushOutcome> outcome) {
    result = outcome.status();
  };
  ASSERT_TRUE(registry_.Create(after).ok());
  old->aggregator->PushSparse(push, note);
  EXPECT_TRUE(absl::IsUnavailable(result)) << result;
  EXPECT_EQ(old->config.optimizer().learning_rate(), -1);
  TableEntry* const entry = *registry_.Find(TableId(1));
  entry->aggregator->PushSparse(push, note);
  EXPECT_TRUE(result.ok()) << result;
  const SparseGradients expected = {{Key{1}, {2}}};
  EXPECT_EQ(RowsOf(*entry->sparse), expected);
  EXPECT_EQ(RowsOf(*old->sparse), expected);
}

TEST_F(TableRegistryTest, OnlyTheFirstCreationAfterARestoreMayChangeATable) {
  const v1::TableConfig first = SparseConfig(1, -1);
  const v1::TableConfig second = SparseConfig(1, -2);
  ASSERT_TRUE(registry_.CreateRestored(first).ok());
  ASSERT_TRUE(registry_.Create(second).ok());
  EXPECT_EQ(registry_.Create(first).code(), absl::StatusCode::kAlreadyExists);
  EXPECT_TRUE(registry_.Create(second).ok());
}

// A table may come, or go on under another configuration, while a cut is open.
TEST_F(TableRegistryTest, LaterTablesHoldTheirRoundsForTheOpenCut) {
  v1::TableConfig restored = DenseConfig(2, 2, -1, v1::ASYNC);
  ASSERT_TRUE(registry_.CreateRestored(restored).ok());
  registry_.SetRoundMember(WorkerIndex(0), Generation(1), true);
  EXPECT_EQ(registry_.HoldRounds(), 0u);
  restored.set_mode(v1::SYNC);
  ASSERT_TRUE(registry_.Create(restored).ok());
  ASSERT_TRUE(registry_.Create(SparseConfig(1, -1, v1::SYNC)).ok());
  const auto find = [this](uint32_t id) {
    return *registry_.Find(TableId(id));
  };
  int num_responses = 0;
  const auto push_round = [&](uint64_t round) {
    const auto count = [&](absl::StatusOr<PushOutcome> outcome) {
      EXPECT_TRUE(outcome.ok()) << outcome.status();
      ++num_responses;
    };
    const v1::RequestHeader header = PushHeader(0, 1, round, round);
    find(1)->aggregator->PushSparse(SparsePushOf(header, {{Key{1}, {1}}}),
                                    count);
    find(2)->aggregator->PushDense(
        DensePushOf(header, {{BlockIndex(0), {1, 1}}}), count);
  };
  push_round(1);
  EXPECT_EQ(num_responses, 0);
  EXPECT_EQ(registry_.HeldPushes(), 2u);
  registry_.AllowRounds(1);
  EXPECT_EQ(num_responses, 2);
  push_round(2);
  EXPECT_EQ(num_responses, 2);
  registry_.AllowRounds(kEveryRound);
  EXPECT_EQ(num_responses, 4);
}

TEST_F(TableRegistryTest, NothingIsCreatedOrHeldAfterShutdown) {
  ASSERT_TRUE(registry_.Create(SparseConfig(1, -1, v1::SYNC)).ok());
  registry_.SetRoundMember(WorkerIndex(0), Generation(1), true);
  registry_.SetRoundMember(WorkerIndex(1), Generation(1), true);
  absl::Status result;
  (*registry_.Find(TableId(1)))
      ->aggregator->PushSparse(
          SparsePushOf(PushHeader(0, 1, 1, 1), {{Key{1}, {1}}}),
          [&](absl::StatusOr<PushOutcome> outcome) {
            result = outcome.status();
          });
  registry_.Shutdown();
  EXPECT_EQ(result.code(), absl::StatusCode::kUnavailable);
  EXPECT_EQ(registry_.Create(DenseConfig(100, 10, 1)).code(),
            absl::StatusCode::kUnavailable);
}

TEST_F(TableRegistryTest, AWorkersPushesAreForgottenInAllTables) {
  ASSERT_TRUE(registry_.Create(SparseConfig(1, -1)).ok());
  ASSERT_TRUE(registry_.Create(DenseConfig(8, 4, -1)).ok());
  TableEntry* const sparse = *registry_.Find(TableId(1));
  TableEntry* const dense = *registry_.Find(TableId(2));
  SparseGradients gradients;
  for (uint64_t key = 0; key < 100; ++key) gradients[Key{key}] = {1};
  // Whether the tables and their versions know the push already.
  const auto are_known = [&](uint32_t worker, uint64_t generation) {
    const v1::RequestHeader header = PushHeader(worker, generation, 1);
    std::vector<bool> known;
    const uint64_t versions =
        sparse->aggregator->Version() + dense->aggregator->Version();
    const auto ask = [&](size_t num_groups) {
      return [&known, num_groups](absl::StatusOr<PushOutcome> outcome) {
        ASSERT_TRUE(outcome.ok());
        known.push_back(outcome->duplicate_groups == num_groups);
        EXPECT_TRUE(known.back() || outcome->duplicate_groups == 0);
      };
    };
    wire::PushSparseRequestView push = SparsePushOf(header, gradients);
    const size_t num_groups = push.groups.size();
    sparse->aggregator->PushSparse(std::move(push), ask(num_groups));
    dense->aggregator->PushDense(
        DensePushOf(header, {{BlockIndex(0), {1, 1, 1, 1}},
                             {BlockIndex(1), {1, 1, 1, 1}}}),
        ask(2));
    known.push_back(versions == sparse->aggregator->Version() +
                                    dense->aggregator->Version());
    return known;
  };
  const std::vector<bool> all(3, true);
  const std::vector<bool> none(3, false);
  for (const uint64_t generation : {3, 4, 5}) {
    EXPECT_EQ(are_known(0, generation), none);
    EXPECT_EQ(are_known(1, generation), none);
  }
  registry_.ForgetWorker(WorkerIndex(0), Generation(4));
  EXPECT_EQ(are_known(0, 5), all);
  for (const uint64_t generation : {3, 4, 5}) {
    EXPECT_EQ(are_known(1, generation), all);
  }
  EXPECT_EQ(are_known(0, 3), none);
  EXPECT_EQ(are_known(0, 4), none);
}

}  // namespace
}  // namespace oarlock::pserver
