// Workers in geo mode against real servers, and a model of what those hold.

#include "worker/geo/geo_replica.h"

#include <gtest/gtest.h>

#include <cstdint>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "base/clock.h"
#include "base/random.h"
#include "tests/client/blocking_calls.h"
#include "tests/integration/mini_cluster.h"
#include "tests/worker/counting_model.h"
#include "worker/config/table_plan.h"

namespace oarlock::worker {
namespace {

constexpr size_t kParameters = 5;
constexpr uint64_t kKeys = 60;

class GeoReplicaTest : public ::testing::Test {
 protected:
  void Start(uint32_t num_servers, uint32_t num_workers) {
    v1::JobConfig config;
    SetCounting(&config);
    config.set_mode("geo");
    config.set_optimizer("adagrad");
    config.set_learning_rate(.1);
    const auto plan = PlanTables(model_.spec(), config, num_workers);
    ASSERT_TRUE(plan.ok()) << plan.status();
    plan_ = *plan;
    MiniClusterOptions options;
    options.num_servers = num_servers;
    options.num_workers = num_workers;
    auto cluster = MiniCluster::Start(options);
    ASSERT_TRUE(cluster.ok()) << cluster.status();
    cluster_ = *std::move(cluster);
    for (uint32_t w = 0; w < num_workers; ++w) {
      auto worker = MiniWorker::Join(*cluster_, w);
      ASSERT_TRUE(worker.ok()) << worker.status();
      workers_.push_back(*std::move(worker));
      client::ParameterClient& client = workers_.back()->parameters();
      for (const v1::TableConfig& table : plan_.tables) {
        ASSERT_TRUE(client.CreateTable(table).ok());
      }
      auto replica = GeoReplica::Create(plan_, num_workers, 1000, &client);
      ASSERT_TRUE(replica.ok()) << replica.status();
      replicas_.push_back(*std::move(replica));
      client::DenseReplica dense;
      ASSERT_TRUE(client::PullAll(client, plan_.dense_table, &dense).ok());
      replicas_.back()->ResetDense(dense);
    }
  }

  // A batch with these keys, each once, found in the worker's replica.
  GeoStep StepOf(uint32_t worker, const std::vector<Key>& keys) {
    GeoStep step;
    step.buffer = std::make_shared<StepBuffer>(&model_.spec(), clock_);
    step.buffer->batch.num_examples = keys.size();
    step.buffer->batch.keys.assign(keys.begin(), keys.end());
    step.buffer->BuildKeys(workers_[worker]->parameters().partition_bits());
    const absl::Status status =
        replicas_[worker]->Fetch(absl::MakeSpan(&step, 1));
    EXPECT_TRUE(status.ok()) << status;
    return step;
  }

  // What the worker pushed; it is acknowledged.
  client::PushRequest Exchange(uint32_t worker,
                               std::shared_ptr<const void>* memory) {
    client::PushRequest push;
    *memory = replicas_[worker]->TakeChanges(true, true, false, &push);
    const absl::Status status =
        client::PushAndWait(workers_[worker]->parameters(), push, *memory);
    EXPECT_TRUE(status.ok()) << status;
    replicas_[worker]->Pushed();
    return push;
  }

  const CountingModel model_{/*num_slots=*/1, kParameters};
  TablePlan plan_;
  const FakeClock clock_;
  std::unique_ptr<MiniCluster> cluster_;
  std::vector<std::unique_ptr<MiniWorker>> workers_;
  std::vector<std::unique_ptr<GeoReplica>> replicas_;
};

// Servers hold initial values less the sum of what was pushed; a worker that
// has asked what others changed has what the servers have, bit for bit.
TEST_F(GeoReplicaTest, ServersHoldTheSumOfAllChangesAndWorkersHearOfThem) {
  constexpr uint32_t kWorkers = 3;
  Start(/*num_servers=*/2, kWorkers);
  const uint64_t seed = 21;
  SCOPED_TRACE(absl::StrCat("seed ", seed));
  RandomSequence random(seed);
  std::map<Key, std::vector<float>> server;
  std::vector<float> dense(kParameters);
  uint64_t trained_rows = 0;
  for (int i = 0; i < 300; ++i) {
    const auto w = static_cast<uint32_t>(random.Below(kWorkers));
    GeoReplica& replica = *replicas_[w];
    ASSERT_TRUE(replica.Refresh().ok());
    const uint64_t num_steps = 1 + random.Below(3);
    for (uint64_t s = 0; s < num_steps; ++s) {
      std::vector<Key> keys(1 + random.Below(20));
      for (Key& key : keys) key = Key{random.Below(kKeys)};
      GeoStep step = StepOf(w, keys);
      replica.Gather(step);
      SparseInputBuffer& input = step.buffer->inputs[0];
      const std::vector<Key>& distinct = input.keys.keys();
      for (size_t k = 0; s == 0 && k < distinct.size(); ++k) {
        const auto& row =
            server.try_emplace(distinct[k], std::vector<float>(kCountingRowDim))
                .first->second;
        for (size_t d = 0; d < kCountingRowDim; ++d) {
          ASSERT_EQ(input.rows[k * kCountingRowDim + d], row[d])
              << "exchange " << i << " of worker " << w;
        }
        trained_rows += row[0] != 0;
      }
      for (float& g : input.gradients) {
        g = static_cast<float>(random.Uniform() - .5);
      }
      std::vector<float> gradients(kParameters, .5f);
      const GeoStep* const steps[] = {&step};
      replica.Apply(steps, gradients.data(), /*statistics=*/false);
    }
    std::shared_ptr<const void> memory;
    const client::PushRequest push = Exchange(w, &memory);
    ASSERT_EQ(push.sparse.size(), 1u);
    const std::vector<Key>& keys = push.sparse[0].keys->keys();
    for (size_t k = 0; k < keys.size(); ++k) {
      std::vector<float>& row =
          server.try_emplace(keys[k], std::vector<float>(kCountingRowDim))
              .first->second;
      for (size_t d = 0; d < kCountingRowDim; ++d) {
        row[d] -= push.sparse[0].gradients[k * kCountingRowDim + d];
      }
    }
    ASSERT_EQ(push.dense.size(), 1u);
    EXPECT_EQ(push.dense[0].num_steps, num_steps);
    for (size_t d = 0; d < kParameters; ++d) {
      dense[d] -= push.dense[0].gradients[d];
      ASSERT_EQ(replica.dense()[d], dense[d]);
    }
  }
  EXPECT_GT(trained_rows, 1000u);
  EXPECT_LT(dense[0], -.1f);
}

// What this worker changed itself, but not here, is nothing that servers tell
// it.
TEST_F(GeoReplicaTest, RowsThatWereMarkedArePulledAgain) {
  Start(/*num_servers=*/1, /*num_workers=*/1);
  GeoReplica& replica = *replicas_[0];
  ASSERT_TRUE(replica.Refresh().ok());
  GeoStep step = StepOf(0, {Key{1}, Key{2}});
  // This worker itself pushes past its replica.
  client::RowBatch changes;
  changes.keys.Build({Key{1}, Key{2}},
                     workers_[0]->parameters().partition_bits());
  changes.values.assign(2 * kCountingRowDim, -1);
  ASSERT_TRUE(client::PushRows(workers_[0]->parameters(),
                               plan_.sparse_tables[0], changes)
                  .ok());
  ASSERT_TRUE(replica.Refresh().ok());
  step = StepOf(0, {Key{1}, Key{2}});
  replica.Gather(step);
  EXPECT_EQ(step.buffer->inputs[0].rows,
            std::vector<float>(2 * kCountingRowDim, 0));
  replica.MarkChanged(0, {Key{1}, Key{2}});
  ASSERT_TRUE(replica.Refresh().ok());
  step = StepOf(0, {Key{1}, Key{2}});
  replica.Gather(step);
  EXPECT_EQ(step.buffer->inputs[0].rows,
            std::vector<float>(2 * kCountingRowDim, 1));
}

TEST_F(GeoReplicaTest, FailuresOfTheServersAreReported) {
  Start(/*num_servers=*/1, /*num_workers=*/1);
  client::ChangeMarks marks;
  const auto changes =
      workers_[0]->parameters().ListChanges(plan_.dense_table, &marks);
  EXPECT_TRUE(absl::IsFailedPrecondition(changes.status())) << changes.status();
}

}  // namespace
}  // namespace oarlock::worker
