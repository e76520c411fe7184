#include "pserver/aggregator/async_aggregator.h"

#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "base/random.h"
#include "gtest/gtest.h"
#include "tests/pserver/service/push_testing.h"

namespace oarlock::pserver {
namespace {

using Outcome = absl::StatusOr<PushOutcome>;

Outcome PushSparse(AsyncAggregator* aggregator, const v1::RequestHeader& header,
                   const SparseGradients& gradients) {
  Outcome result = absl::UnknownError("not answered");
  aggregator->PushSparse(SparsePushOf(header, gradients),
                         [&](Outcome outcome) { result = outcome; });
  return result;
}

TEST(AsyncAggregatorTest, PushesWithRetriesFollowAModel) {
  constexpr uint32_t kDim = 3;
  constexpr float kLearningRate = 0.3f;
  for (uint64_t seed = 1; seed <= 10; ++seed) {
    SCOPED_TRACE("seed " + std::to_string(seed));
    RandomSequence random(seed);
    const auto table = MakeSparse(SparseConfig(kDim, kLearningRate));
    AsyncAggregator aggregator(table.get());
    SgdModel model(kLearningRate);
    std::vector<std::pair<v1::RequestHeader, SparseGradients>> sent;
    uint64_t sequences[3] = {0, 0, 0};
    uint64_t num_pushes = 0;
    for (int step = 0; step < 60; ++step) {
      if (!sent.empty() && random.Below(3) == 0) {
        const auto& [header, gradients] = sent[random.Below(sent.size())];
        const Outcome again = PushSparse(&aggregator, header, gradients);
        ASSERT_TRUE(again.ok()) << again.status();
        EXPECT_EQ(again->duplicate_groups,
                  SparsePushOf(header, gradients).groups.size());
        continue;
      }
      const uint32_t worker = random.Below(3);
      v1::RequestHeader header = PushHeader(worker, 1, ++sequences[worker]);
      header.set_table_message_count(3);
      ++num_pushes;
      const auto messages =
          CutByPartition(RandomGradients(random(), 50, 200, kDim), 3);
      for (uint32_t i = 0; i < messages.size(); ++i) {
        if (messages[i].empty()) continue;
        header.set_message_index(i);
        const Outcome outcome = PushSparse(&aggregator, header, messages[i]);
        ASSERT_TRUE(outcome.ok()) << outcome.status();
        EXPECT_EQ(outcome->duplicate_groups, 0u);
        model.Apply(messages[i]);
        sent.push_back({header, messages[i]});
      }
    }
    EXPECT_EQ(RowsOf(*table), model.rows());
    EXPECT_EQ(aggregator.Version(), num_pushes)
        << "a push counts once, in however many messages it came";
    EXPECT_EQ(aggregator.HeldPushes(), 0u);
  }
}

TEST(AsyncAggregatorTest, PushOfManyKeysIsAppliedWhole) {
  // More than is brought into cache at a time.
  const SparseGradients gradients = RandomGradients(1, 20000, 1u << 20, 4);
  const auto table = MakeSparse(SparseConfig(4, -1));
  AsyncAggregator aggregator(table.get());
  ASSERT_TRUE(PushSparse(&aggregator, PushHeader(0, 1, 1), gradients).ok());
  EXPECT_EQ(RowsOf(*table), gradients);
}

TEST(AsyncAggregatorTest, PushOfSomeOldAndSomeNewGroupsAppliesTheNew) {
  const auto table = MakeSparse(SparseConfig(1, -1));
  AsyncAggregator aggregator(table.get());
  const SparseGradients all = RandomGradients(1, 300, 1000, 1);
  const auto halves = CutByPartition(all, 2);
  ASSERT_TRUE(PushSparse(&aggregator, PushHeader(0, 1, 1), halves[0]).ok());
  const Outcome outcome = PushSparse(&aggregator, PushHeader(0, 1, 1), all);
  ASSERT_TRUE(outcome.ok());
  EXPECT_EQ(outcome->duplicate_groups, (1u << kTestPartitionBits) / 2);
  EXPECT_EQ(RowsOf(*table), all);
}

TEST(AsyncAggregatorTest, DenseBlocksAreAppliedOnce) {
  const auto table = MakeDense(DenseConfig(5, 2, -1));
  AsyncAggregator aggregator(table.get());
  const DenseGradients gradients = {{BlockIndex(0), {1, 2}},
                                    {BlockIndex(2), {5}}};
  for (uint32_t duplicates : {0, 2}) {
    Outcome result = absl::UnknownError("not answered");
    aggregator.PushDense(DensePushOf(PushHeader(0, 1, 1), gradients),
                         [&](Outcome outcome) { result = outcome; });
    ASSERT_TRUE(result.ok()) << result.status();
    EXPECT_EQ(result->duplicate_groups, duplicates);
  }
  EXPECT_EQ(BlockOf(*table, BlockIndex(0)), (std::vector<float>{1, 2}));
  EXPECT_EQ(BlockOf(*table, BlockIndex(1)), (std::vector<float>{0, 0}));
  EXPECT_EQ(BlockOf(*table, BlockIndex(2)), (std::vector<float>{5}));
  EXPECT_EQ(aggregator.Version(), 1u);
}

TEST(AsyncAggregatorTest, EveryBlockIsAsStaleAsItsOwnVersionSays) {
  v1::TableConfig config = DenseConfig(4, 2, -1);
  config.mutable_dense()->set_staleness_power(1);
  const auto table = MakeDense(config);
  AsyncAggregator aggregator(table.get());
  const auto push = [&](uint64_t sequence, std::vector<uint64_t> versions) {
    wire::PushDenseRequestView view =
        DensePushOf(PushHeader(0, 1, sequence),
                    {{BlockIndex(0), {1, 1}}, {BlockIndex(1), {1, 1}}});
    view.known_versions = std::move(versions);
    aggregator.PushDense(std::move(view), [](Outcome outcome) {
      ASSERT_TRUE(outcome.ok()) << outcome.status();
    });
  };
  push(1, {1, 1});
  push(2, {2, 1});
  push(3, {});
  EXPECT_EQ(BlockOf(*table, BlockIndex(0)), (std::vector<float>{3, 3}));
  EXPECT_EQ(BlockOf(*table, BlockIndex(1)), (std::vector<float>{2.5f, 2.5f}));
}

TEST(AsyncAggregatorTest, ConcurrentWorkersAreAllCounted) {
  constexpr uint32_t kWorkers = 3;
  constexpr uint64_t kPushes = 100;
  const auto table = MakeSparse(SparseConfig(2, -1));
  AsyncAggregator aggregator(table.get());
  SparseGradients ones;
  for (uint64_t key = 0; key < 100; ++key) ones[Key{key}] = {1, 1};
  std::vector<std::thread> threads;
  for (uint32_t w = 0; w < kWorkers; ++w) {
    threads.emplace_back([&, w] {
      for (uint64_t i = 1; i <= kPushes; ++i) {
        // Each is sent twice.
        for (int call = 0; call < 2; ++call) {
          EXPECT_TRUE(PushSparse(&aggregator, PushHeader(w, 1, i), ones).ok());
        }
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  const SparseGradients rows = RowsOf(*table);
  EXPECT_EQ(rows.size(), ones.size());
  for (const auto& [key, row] : rows) EXPECT_EQ(row[0], kWorkers * kPushes);
  EXPECT_EQ(aggregator.Version(), kWorkers * kPushes);
}

TEST(AsyncAggregatorTest, PushesAfterShutdownAreUnavailable) {
  const auto table = MakeSparse(SparseConfig(1, -1));
  AsyncAggregator aggregator(table.get());
  aggregator.Shutdown();
  EXPECT_EQ(PushSparse(&aggregator, PushHeader(0, 1, 1), {{Key{1}, {1}}})
                .status()
                .code(),
            absl::StatusCode::kUnavailable);
  EXPECT_TRUE(RowsOf(*table).empty());
}

}  // namespace
}  // namespace oarlock::pserver
