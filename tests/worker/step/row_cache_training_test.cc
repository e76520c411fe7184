// Jobs whose threads cache rows.

#include <gtest/gtest.h>

#include "absl/status/status.h"
#include "tests/data/test_files.h"
#include "tests/worker/planted_rows.h"
#include "tests/worker/training_job.h"

namespace oarlock::worker {
namespace {

constexpr uint64_t kRows = 6000;

class RowCacheTrainingTest : public ::testing::TestWithParam<const char*> {
 protected:
  static void SetUpTestSuite() { folder_ = NewPlantedRows(kRows); }
  static void TearDownTestSuite() { delete folder_; }

  static v1::JobConfig Config() {
    v1::JobConfig config;
    config.set_mode(GetParam());
    config.set_model("deepfm");
    config.add_train_files(folder_->Path("part-0"));
    config.add_test_files(folder_->Path("part-0"));
    config.set_sparse_feature_dim(5000);
    config.set_embedding_size(4);
    config.set_hidden_sizes("8");
    config.set_batch_size(50);
    config.set_learning_rate(.01);
    config.set_num_partitions(64);
    return config;
  }
  static void ExpectDone(const JobOutcome& outcome) {
    for (const absl::Status& status : outcome.statuses) {
      ASSERT_TRUE(status.ok()) << status;
    }
  }

  static TestFolder* folder_;
};
TestFolder* RowCacheTrainingTest::folder_ = nullptr;

INSTANTIATE_TEST_SUITE_P(Modes, RowCacheTrainingTest,
                         ::testing::Values("async", "half_async"),
                         [](const auto& info) { return info.param; });

// Rows that nobody moves are the same wherever they come from.
TEST_P(RowCacheTrainingTest, RowsThatDoNotMoveMayComeFromTheCache) {
  v1::JobConfig config = Config();
  config.set_optimizer("sgd");
  config.set_embedding_learning_rate(1e-30);
  config.set_lookahead_batches(0);
  const JobOutcome without = RunLocalJob(config);
  ExpectDone(without);
  for (const int64_t rows : {100, 100000}) {
    config.set_row_cache_rows(rows);
    config.set_row_cache_steps(40);
    const JobOutcome with = RunLocalJob(config);
    ExpectDone(with);
    EXPECT_EQ(with.parameters, without.parameters);
    EXPECT_EQ(with.Phase("train", 0).logloss(),
              without.Phase("train", 0).logloss());
    const v1::PhaseProgress& progress = with.Phase("train", 0).progress();
    EXPECT_GT(progress.row_cache_lookups(), 0u);
    EXPECT_GT(progress.row_cache_hits(), 0u);
    EXPECT_EQ(with.Phase("test", 0).progress().row_cache_lookups(), 0u);
  }
}

TEST_P(RowCacheTrainingTest, AJobLearnsFromRowsThatAreALittleOld) {
  // One thread: what several learn in so few steps is a matter of their turns.
  v1::JobConfig config = Config();
  const JobOutcome without = RunClusterJob(config, 2, 1);
  ExpectDone(without);
  config.set_row_cache_rows(2000);
  config.set_row_cache_steps(4);
  const JobOutcome with = RunClusterJob(config, 2, 1);
  ExpectDone(with);
  EXPECT_NEAR(with.Phase("test", 0).auc(), without.Phase("test", 0).auc(), .03);
}

TEST_P(RowCacheTrainingTest, ThreadsOfSeveralWorkersHaveCachesOfTheirOwn) {
  v1::JobConfig config = Config();
  config.set_thread_num(2);
  config.set_row_cache_rows(2000);
  config.set_row_cache_steps(4);
  const JobOutcome with = RunClusterJob(config, 2, 2);
  ExpectDone(with);
  EXPECT_EQ(with.summary.examples, kRows);
  for (const float x : with.parameters) ASSERT_TRUE(std::isfinite(x));
  EXPECT_GT(with.summary.row_cache_hit_rate, .2);
  EXPECT_LT(with.summary.row_cache_hit_rate, .9);
}

}  // namespace
}  // namespace oarlock::worker
