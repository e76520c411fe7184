// Whole jobs in geo mode.

#include "worker/geo/geo_epoch.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdint>
#include <memory>
#include <string>
#include <thread>
#include <tuple>
#include <utility>
#include <vector>

#include "tests/client/blocking_calls.h"
#include "tests/data/test_files.h"
#include "tests/integration/mini_cluster.h"
#include "tests/worker/counting_check.h"
#include "tests/worker/counting_model.h"
#include "tests/worker/planted_rows.h"
#include "tests/worker/training_job.h"
#include "worker/trainer.h"

namespace oarlock::worker {
namespace {

using ::testing::HasSubstr;

constexpr uint64_t kRows = 2450;
constexpr size_t kSlots = 26;
// Parameters that are compared must have been trained: some of them, at least
// this far from where they began.
constexpr float kMoved = .01f;

class GeoEpochTest : public ::testing::Test {
 protected:
  static void SetUpTestSuite() { folder_ = NewPlantedRows(kRows); }
  static void TearDownTestSuite() { delete folder_; }

  static v1::JobConfig Config(const std::string& mode) {
    v1::JobConfig config;
    config.set_mode(mode);
    config.set_model("lr");
    config.add_train_files(folder_->Path("part-0"));
    config.set_sparse_feature_dim(5000);
    config.set_embedding_size(4);
    config.set_batch_size(100);
    config.set_optimizer("adagrad");
    config.set_adagrad_initial_accumulator(.1);
    config.set_learning_rate(.05);
    config.set_num_partitions(64);
    if (mode == "geo") config.set_geo_steps(1);
    return config;
  }

  static void ExpectOk(const JobOutcome& outcome) {
    for (const absl::Status& status : outcome.statuses) {
      ASSERT_TRUE(status.ok()) << status;
    }
  }

  static void ExpectSameUpToRounding(const JobOutcome& job,
                                     const JobOutcome& same,
                                     const v1::JobConfig& config) {
    ExpectOk(job);
    ExpectOk(same);
    const float moved =
        LargestDifference(job.parameters, InitialParameters(config));
    EXPECT_GT(moved, kMoved);
    EXPECT_LT(LargestDifference(job.parameters, same.parameters),
              1e-4f * moved);
  }

  // Two workers through two servers count every example.
  void Count(const v1::JobConfig& config, size_t num_parameters);

  static TestFolder* folder_;
};
TestFolder* GeoEpochTest::folder_ = nullptr;

class GeoEquality : public GeoEpochTest,
                    public ::testing::WithParamInterface<
                        std::tuple<const char*, const char*>> {
 protected:
  v1::JobConfig ConfigOf(const std::string& mode) {
    v1::JobConfig config = Config(mode);
    config.set_model(std::get<0>(GetParam()));
    config.set_optimizer(std::get<1>(GetParam()));
    if (config.optimizer() == "sgd") config.set_learning_rate(.5);
    return config;
  }
};

// Without look-ahead, which sync mode has none of, local training is the rule
// applied to a batch's gradients, batch after batch. An exchange adds at most
// 2^-24 (|change| + |weight|) to a weight.
TEST_P(GeoEquality, OneWorkerAndOneStepEqualLocalTraining) {
  ExpectSameUpToRounding(RunLocalJob(ConfigOf("geo")),
                         RunLocalJob(ConfigOf("sync")), ConfigOf("sync"));
}

TEST_P(GeoEquality, OneWorkerThroughServersLearnsTheSameBits) {
  v1::JobConfig config = ConfigOf("geo");
  config.set_geo_steps(7);
  const JobOutcome local = RunLocalJob(config);
  const JobOutcome remote = RunClusterJob(config, 2, 1);
  ExpectOk(local);
  ExpectOk(remote);
  EXPECT_GT(LargestDifference(local.parameters, InitialParameters(config)),
            kMoved);
  EXPECT_TRUE(local.parameters == remote.parameters)
      << "off by " << LargestDifference(local.parameters, remote.parameters);
}

INSTANTIATE_TEST_SUITE_P(ModelsAndRules, GeoEquality,
                         ::testing::Values(std::make_tuple("lr", "sgd"),
                                           std::make_tuple("lr", "adagrad"),
                                           std::make_tuple("ctr_dnn", "sgd"),
                                           std::make_tuple("ctr_dnn",
                                                           "adagrad"),
                                           std::make_tuple("deepfm", "adam")));

TEST_F(GeoEpochTest, StepsBetweenExchangesChangeNothingForOneWorker) {
  v1::JobConfig config = Config("geo");
  const JobOutcome each = RunLocalJob(config);
  // More than a group, and not a divisor of the number of steps.
  config.set_geo_steps(18);
  ExpectSameUpToRounding(RunLocalJob(config), each, config);
}

TEST_F(GeoEpochTest, TwoThreadsOfBatch50EqualOneOfBatch100) {
  v1::JobConfig config = Config("geo");
  config.set_model("ctr_dnn");
  config.set_split("interleaved");
  const JobOutcome one = RunLocalJob(config);
  config.set_thread_num(2);
  config.set_batch_size(50);
  ExpectSameUpToRounding(RunLocalJob(config), one, config);
}

TEST_F(GeoEpochTest, StateIsKeptFromEpochToEpoch) {
  v1::JobConfig config = Config("geo");
  config.set_epochs(2);
  v1::JobConfig sync = Config("sync");
  sync.set_epochs(2);
  ExpectSameUpToRounding(RunLocalJob(config), RunLocalJob(sync), config);
}

void GeoEpochTest::Count(const v1::JobConfig& config, size_t num_parameters) {
  MiniClusterOptions options;
  options.num_servers = 2;
  options.num_workers = 2;
  const auto cluster = MiniCluster::Start(options);
  ASSERT_TRUE(cluster.ok()) << cluster.status();
  std::vector<absl::Status> statuses(2);
  std::vector<std::unique_ptr<MiniWorker>> workers(2);
  std::vector<std::thread> threads;
  for (uint32_t w = 0; w < 2; ++w) {
    threads.emplace_back([&, w] {
      auto worker = MiniWorker::Join(**cluster, w);
      statuses[w] = worker.status();
      if (!worker.ok()) return;
      workers[w] = *std::move(worker);
      auto trainer = Trainer::Create(
          config, std::make_unique<CountingModel>(kSlots, num_parameters),
          &workers[w]->parameters(), &workers[w]->job());
      statuses[w] = trainer.status();
      if (trainer.ok()) statuses[w] = (*trainer)->Run().status();
    });
  }
  for (std::thread& thread : threads) thread.join();
  for (const absl::Status& status : statuses)
    ASSERT_TRUE(status.ok()) << status;
  // Of dense parameters the mean of the two.
  const auto checked =
      CheckCounts(config, CountingModel(kSlots, num_parameters).spec(),
                  workers[0]->parameters(), /*dense_share=*/.5);
  ASSERT_TRUE(checked.ok()) << checked.status();
  EXPECT_EQ(*checked, kRows);
  for (const auto& worker : workers) {
    EXPECT_TRUE(worker->job().Finish(absl::OkStatus()).ok());
  }
}

TEST_F(GeoEpochTest, EveryExampleCountsOnceInTheSumOfTwoWorkers) {
  v1::JobConfig config = Config("geo");
  SetCounting(&config);
  config.set_batch_size(20);
  config.set_geo_steps(4);
  config.set_epochs(2);
  Count(config, /*num_parameters=*/40000);
  Count(config, /*num_parameters=*/0);
  config.set_thread_num(3);
  Count(config, /*num_parameters=*/10);
  config.set_split("interleaved");
  Count(config, /*num_parameters=*/10);
}

// Few rows are kept, and come back with what they had.
TEST_F(GeoEpochTest, RowsThatWereDroppedAreCountedOn) {
  v1::JobConfig config = Config("geo");
  SetCounting(&config);
  config.set_batch_size(20);
  config.set_geo_rows_max(300);
  Count(config, /*num_parameters=*/10);
}

TEST_F(GeoEpochTest, EvaluationSeesWhatWasTrained) {
  v1::JobConfig config = Config("geo");
  config.set_epochs(2);
  config.add_test_files(folder_->Path("part-0"));
  const JobOutcome outcome = RunClusterJob(config, 2, 2);
  ExpectOk(outcome);
  EXPECT_EQ(outcome.summary.examples, 2 * kRows);
  EXPECT_GT(outcome.Phase("test", 1).auc(), outcome.Phase("test", 0).auc());
  EXPECT_GT(outcome.Phase("train", 1).auc(),
            outcome.Phase("train", 0).auc() + .02);
}

TEST_F(GeoEpochTest, JobsWithStatisticsEndWell) {
  v1::JobConfig config = Config("geo");
  config.set_accessor("ctr");
  config.set_geo_steps(5);
  const JobOutcome outcome = RunClusterJob(config, 1, 2);
  ExpectOk(outcome);
}

TEST_F(GeoEpochTest, FlagsThatContradictItAreRefused) {
  const auto refusal = [](void (*change)(v1::JobConfig*), const char* mode) {
    v1::JobConfig config = Config(mode);
    change(&config);
    const absl::Status status = Trainer::CheckConfig(config);
    EXPECT_TRUE(absl::IsInvalidArgument(status)) << status;
    return std::string(status.message());
  };
  EXPECT_TRUE(Trainer::CheckConfig(Config("geo")).ok());
  EXPECT_THAT(
      refusal([](v1::JobConfig* c) { c->set_admission("count"); }, "geo"),
      HasSubstr("--admission"));
  EXPECT_THAT(refusal([](v1::JobConfig* c) { c->set_rows_max(10000); }, "geo"),
              HasSubstr("--rows_max"));
  EXPECT_THAT(
      refusal([](v1::JobConfig* c) { c->set_evict_idle_ticks(5); }, "geo"),
      HasSubstr("--evict_idle_ticks"));
  EXPECT_THAT(
      refusal([](v1::JobConfig* c) { c->set_push_format("float16"); }, "geo"),
      HasSubstr("--push_format"));
  EXPECT_THAT(
      refusal([](v1::JobConfig* c) { c->set_dense_interval_steps(2); }, "geo"),
      HasSubstr("--dense_interval_steps"));
  EXPECT_THAT(refusal([](v1::JobConfig* c) { c->set_geo_steps(2); }, "async"),
              HasSubstr("--geo_steps"));
}

}  // namespace
}  // namespace oarlock::worker
