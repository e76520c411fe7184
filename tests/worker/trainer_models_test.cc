// What models bring along of their own, in whole jobs: norms, dropout,
// clipping, slots of several sizes.

#include <gtest/gtest.h>

#include <cmath>
#include <string>
#include <vector>

#include "tests/data/test_files.h"
#include "tests/worker/planted_rows.h"
#include "tests/worker/training_job.h"

namespace oarlock::worker {
namespace {

constexpr uint64_t kRows = 2400;
constexpr float kDataNormStart = 1e4f;

// 2,400 Criteo lines of a planted model.
class TrainerModelsTest : public ::testing::Test {
 protected:
  static void SetUpTestSuite() { folder_ = NewPlantedRows(kRows); }
  static void TearDownTestSuite() { delete folder_; }

  // Small and quick; the test rows are those that were trained on.
  static v1::JobConfig Config() {
    v1::JobConfig config;
    config.set_model("wide_deep");
    config.add_train_files(folder_->Path("part-0"));
    config.add_test_files(folder_->Path("part-0"));
    config.set_sparse_feature_dim(5000);
    config.set_embedding_size(4);
    config.set_hidden_sizes("8");
    config.set_batch_size(100);
    config.set_learning_rate(.05);
    config.set_warmup_steps(0);
    config.set_num_partitions(64);
    return config;
  }
  // Everything at once.
  static v1::JobConfig FullConfig() {
    v1::JobConfig config = Config();
    config.set_dense_norm("data");
    config.set_hidden_norm("batch");
    config.set_dropout(.2);
    config.set_clip_norm(.5);
    config.set_clip_value(.2);
    config.set_slot_sizes("0:2,25:2,3:7");
    config.set_pooling("mean");
    return config;
  }

  static void ExpectLearned(const JobOutcome& outcome) {
    for (const absl::Status& status : outcome.statuses) {
      ASSERT_TRUE(status.ok()) << status;
    }
    for (const float x : outcome.parameters) ASSERT_TRUE(std::isfinite(x));
    EXPECT_GT(outcome.Phase("test", 0).auc(), .6);
    EXPECT_LT(outcome.Phase("test", 0).logloss(), .65);
  }

  // The count of the data norm: the first statistic, behind the embeddings and
  // before the dense parameters.
  static double ExamplesOfDataNorm(const v1::JobConfig& config,
                                   const Parameters& parameters) {
    // fc1 [features, 8] with its bias, or its norm's scale and shift; the wide
    // part's 13; out: 8 and its bias.
    const size_t dense = config.slot_sizes().empty()
                             ? (26 * 4 + 13) * 8 + 8 + 13 + 8 + 1
                             : (23 * 4 + 2 * 2 + 7 + 13) * 8 + 16 + 13 + 8 + 1;
    return kDataNormStart + parameters.at(parameters.size() - dense - 64);
  }

  static TestFolder* folder_;
};
TestFolder* TrainerModelsTest::folder_ = nullptr;

TEST_F(TrainerModelsTest, AllTogetherLearnAlone) {
  ExpectLearned(RunLocalJob(FullConfig()));
}

TEST_F(TrainerModelsTest, AllTogetherLearnThroughServers) {
  v1::JobConfig config = FullConfig();
  config.set_accessor("ctr");
  ExpectLearned(RunClusterJob(config, 2, 2));
}

TEST_F(TrainerModelsTest, NormsCountEveryExampleOfAllWorkersOnce) {
  for (const char* mode : {"async", "sync"}) {
    v1::JobConfig config = Config();
    config.set_dense_norm("data");
    config.set_mode(mode);
    config.set_thread_num(2);
    const JobOutcome outcome = RunClusterJob(config, 2, 2);
    ExpectLearned(outcome);
    // It forgets a millionth of itself a step.
    EXPECT_NEAR(ExamplesOfDataNorm(config, outcome.parameters),
                kDataNormStart + kRows, 1)
        << mode;
  }
}

TEST_F(TrainerModelsTest, SyncRunsRepeatBitByBitWithDropoutAndNorms) {
  v1::JobConfig config = FullConfig();
  config.set_mode("sync");
  const JobOutcome one = RunClusterJob(config, 1, 2);
  ExpectLearned(one);
  const JobOutcome two = RunClusterJob(config, 2, 2);
  EXPECT_EQ(one.parameters, two.parameters);
  config.set_seed(2);
  EXPECT_NE(RunClusterJob(config, 1, 2).parameters, one.parameters);
}

}  // namespace
}  // namespace oarlock::worker
