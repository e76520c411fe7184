// Evaluations in whole jobs: beside training, after epochs, and what stops
// early because of them.

#include "worker/evaluation/evaluation.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "absl/strings/string_view.h"
#include "absl/time/time.h"
#include "base/clock.h"
#include "tests/data/test_files.h"
#include "tests/worker/fake_job_client.h"
#include "tests/worker/planted_rows.h"
#include "tests/worker/training_job.h"

namespace oarlock::worker {
namespace {

using ::testing::HasSubstr;

constexpr uint64_t kRows = 6000;

class EvaluationTest : public ::testing::Test {
 protected:
  static void SetUpTestSuite() { folder_ = NewPlantedRows(kRows, /*files=*/2); }
  static void TearDownTestSuite() { delete folder_; }

  v1::JobConfig Config() {
    v1::JobConfig config;
    config.set_model("lr");
    config.add_train_files(folder_->Path("part-0"));
    config.add_test_files(folder_->Path("part-1"));
    config.set_sparse_feature_dim(5000);
    config.set_batch_size(20);
    config.set_learning_rate(.05);
    config.set_num_partitions(16);
    return config;
  }
  // One epoch over them is long enough for an evaluation beside it.
  void AddCopies(int count, v1::JobConfig* config) {
    const std::string rows = data::ReadAll(folder_->Path("part-0"));
    for (int copy = 0; copy < count; ++copy) {
      config->add_train_files(copies_.Write(absl::StrCat("copy-", copy), rows));
    }
  }
  static size_t NumOf(const JobOutcome& outcome, const std::string& kind) {
    size_t count = 0;
    for (const v1::Evaluation& evaluation : outcome.summary.evaluations) {
      count += absl::StartsWith(evaluation.work(), kind + "/");
    }
    return count;
  }
  static void ExpectOk(const JobOutcome& outcome) {
    for (const absl::Status& status : outcome.statuses) {
      ASSERT_TRUE(status.ok()) << status;
    }
  }

  static TestFolder* folder_;
  TestFolder copies_;
};
TestFolder* EvaluationTest::folder_ = nullptr;

// Parameters that do not move: who evaluates them, and when, is the same.
TEST_F(EvaluationTest, APeriodicEvaluationFindsWhatTheEvaluationAfterItFinds) {
  v1::JobConfig config = Config();
  config.set_learning_rate(0);
  AddCopies(40, &config);
  config.set_evaluate_period(1000);
  const JobOutcome outcome = RunClusterJob(config, 2, 2);
  ExpectOk(outcome);
  EXPECT_EQ(outcome.summary.examples, 41 * kRows / 2);
  EXPECT_EQ(NumOf(outcome, "test"), 1u);
  ASSERT_GT(NumOf(outcome, "evaluation"), 0u);
  const v1::PhaseStatus& test = outcome.Phase("test", 0);
  for (const v1::Evaluation& evaluation : outcome.summary.evaluations) {
    EXPECT_EQ(evaluation.auc(), test.auc()) << evaluation.work();
    EXPECT_NEAR(evaluation.logloss(), test.logloss(), 1e-8);
    EXPECT_EQ(evaluation.examples(), kRows / 2);
  }
}

TEST_F(EvaluationTest, RoundsAreTheSameWithAPeriodicEvaluation) {
  v1::JobConfig config = Config();
  config.set_mode("sync");
  AddCopies(30, &config);
  const JobOutcome without = RunClusterJob(config, 2, 2);
  ExpectOk(without);
  config.set_evaluate_period(500);
  const JobOutcome with = RunClusterJob(config, 2, 2);
  ExpectOk(with);
  EXPECT_EQ(NumOf(without, "evaluation"), 0u);
  EXPECT_GT(NumOf(with, "evaluation"), 0u);
  ASSERT_FALSE(with.parameters.empty());
  EXPECT_EQ(LargestDifference(without.parameters, with.parameters), 0);
}

TEST_F(EvaluationTest, TrainingThatGetsNoBetterStopsOnAllWorkers) {
  v1::JobConfig config = Config();
  config.set_learning_rate(0);
  config.set_epochs(50);
  config.set_early_stop_metric("auc");
  config.set_early_stop_patience(2);
  for (const std::string mode : {"async", "sync"}) {
    config.set_mode(mode);
    const JobOutcome outcome = RunClusterJob(config, 2, 2);
    ExpectOk(outcome);
    // The first one is the best.
    EXPECT_EQ(outcome.summary.examples, 3 * kRows / 2) << mode;
    EXPECT_EQ(outcome.summary.evaluations.size(), 3u);
    EXPECT_TRUE(outcome.summary.evaluations[0].best());
    EXPECT_THAT(outcome.summary.stop_reason,
                HasSubstr("in test/0 after 3000 examples, and 2 evaluations"));
  }
}

TEST_F(EvaluationTest, AnEpochIsStoppedWithinByAPeriodicEvaluation) {
  v1::JobConfig config = Config();
  config.set_learning_rate(0);
  AddCopies(100, &config);
  config.set_evaluate_period(1000);
  config.set_early_stop_metric("logloss");
  config.set_early_stop_patience(1);
  for (const std::string mode : {"async", "sync"}) {
    config.set_mode(mode);
    const JobOutcome outcome = RunClusterJob(config, 1, 2);
    ExpectOk(outcome);
    EXPECT_LT(outcome.summary.examples, 101 * kRows / 2) << mode;
    EXPECT_GE(NumOf(outcome, "evaluation"), 2u);
    // All end together, with an evaluation of the whole.
    EXPECT_EQ(NumOf(outcome, "test"), 1u);
    EXPECT_THAT(outcome.summary.stop_reason, HasSubstr("early stop: logloss"));
  }
}

TEST_F(EvaluationTest, ALocalRunDoesItToo) {
  v1::JobConfig config = Config();
  config.set_epochs(40);
  config.set_evaluate_period(2000);
  config.set_learning_rate(0);
  config.set_early_stop_metric("auc");
  const JobOutcome outcome = RunLocalJob(config);
  ExpectOk(outcome);
  EXPECT_LT(outcome.summary.examples, 40 * kRows / 2);
  EXPECT_GE(outcome.summary.evaluations.size(), 4u);
}

// Counted beforehand, and found out when it was read.
TEST_F(EvaluationTest, TestFilesWithoutExamplesAreNoErrorUnlessTheyMayStopIt) {
  const std::string empty = copies_.Write("empty", "");
  const std::string malformed = copies_.Write("malformed", "no\nline\n");
  for (const std::string& file : {empty, malformed}) {
    v1::JobConfig config = Config();
    config.clear_test_files();
    config.add_test_files(file);
    config.set_epochs(2);
    for (const JobOutcome& outcome :
         {RunLocalJob(config), RunClusterJob(config, 1, 2)}) {
      ExpectOk(outcome);
      EXPECT_EQ(outcome.summary.examples, kRows);
      EXPECT_TRUE(outcome.summary.evaluations.empty());
    }
    config.set_early_stop_metric("auc");
    for (const JobOutcome& outcome :
         {RunLocalJob(config), RunClusterJob(config, 1, 2)}) {
      EXPECT_EQ(outcome.statuses[0].code(),
                absl::StatusCode::kFailedPrecondition)
          << outcome.statuses[0];
      EXPECT_THAT(outcome.statuses[0].message(),
                  HasSubstr("has no examples, so there are no metrics and "
                            "--early_stop_metric auc would never stop"));
    }
  }
}

TEST_F(EvaluationTest, TestFilesOfOneClassAreAnErrorIfTheirAucMayStopIt) {
  const std::string all = data::ReadAll(folder_->Path("part-1"));
  std::string clicks;
  for (const absl::string_view line : absl::StrSplit(all, '\n')) {
    if (absl::StartsWith(line, "1\t")) absl::StrAppend(&clicks, line, "\n");
  }
  v1::JobConfig config = Config();
  config.clear_test_files();
  config.add_test_files(copies_.Write("clicks", clicks));
  ExpectOk(RunLocalJob(config));
  config.set_early_stop_metric("logloss");
  ExpectOk(RunLocalJob(config));
  config.set_early_stop_metric("auc");
  for (const JobOutcome& outcome :
       {RunLocalJob(config), RunClusterJob(config, 1, 2)}) {
    EXPECT_EQ(outcome.statuses[0].code(), absl::StatusCode::kFailedPrecondition)
        << outcome.statuses[0];
    EXPECT_THAT(std::string(outcome.statuses[0].message()),
                testing::MatchesRegex("AUC of the test files cannot be told: "
                                      "all [0-9]+ labels are 1, and "
                                      "--early_stop_metric is auc; .*"));
  }
}

// A job that knows some evaluations, of this run or one before.
class ListOfEvaluations : public FakeJobClient {
 public:
  absl::StatusOr<v1::JobStatusResponse> GetJobStatus() override {
    v1::JobStatusResponse status;
    status.mutable_evaluations()->Add(reported.begin(), reported.end());
    return status;
  }
  absl::Status ReportEvaluation(const v1::Evaluation& evaluation) override {
    if (is_of_this_run && !reported.empty() &&
        reported.back().work() == evaluation.work() &&
        reported.back().unix_seconds() != evaluation.unix_seconds()) {
      return absl::AlreadyExistsError("told before");
    }
    if (is_of_this_run && !reported.empty() &&
        reported.back().work() == evaluation.work()) {
      reported.back() = evaluation;
    } else {
      reported.push_back(evaluation);
      is_of_this_run = true;
    }
    return absl::OkStatus();
  }

  bool takes_cuts() const override { return true; }
  absl::StatusOr<std::string> CheckpointBest() override {
    ++num_kept;
    return std::string("ckpt-9");
  }

  std::vector<v1::Evaluation> reported;
  bool is_of_this_run = false;
  int num_kept = 0;
};

v1::Evaluation EvaluationAfter(uint64_t trained_examples, double auc) {
  v1::Evaluation evaluation;
  evaluation.set_work("test/0");
  evaluation.set_examples(100);
  evaluation.set_trained_examples(trained_examples);
  evaluation.set_auc(auc);
  return evaluation;
}

TEST(ConcludeEvaluationTest,
     AnEpochThatWasCutShortIsReportedAgainAfterAResume) {
  v1::JobConfig config;
  config.set_early_stop_metric("auc");
  config.set_early_stop_patience(3);
  const FakeClock clock(absl::FromUnixSeconds(1000));
  ListOfEvaluations job;
  job.reported = {EvaluationAfter(3000, .6)};
  // Counted from the resume.
  ASSERT_TRUE(
      ConcludeEvaluation(config, &job, EvaluationAfter(500, .7), clock).ok());
  ASSERT_EQ(job.reported.size(), 2u);
  EXPECT_EQ(job.reported[0].auc(), .6);
  EXPECT_EQ(job.reported[1].auc(), .7);
  EXPECT_TRUE(job.reported[1].best());
  EXPECT_EQ(job.reported[1].unix_seconds(), 1000);
}

TEST(ConcludeEvaluationTest, OneOfARunBeforeStandsIfNothingWasTrainedSince) {
  const FakeClock clock(absl::FromUnixSeconds(1000));
  ListOfEvaluations job;
  job.reported = {EvaluationAfter(3000, .6)};
  ASSERT_TRUE(
      ConcludeEvaluation(v1::JobConfig(), &job, EvaluationAfter(0, .6), clock)
          .ok());
  EXPECT_EQ(job.reported.size(), 1u);
}

TEST(ConcludeEvaluationTest,
     WhatWorker0sPredecessorHasReportedIsNotReportedAgain) {
  const FakeClock clock(absl::FromUnixSeconds(1000));
  ListOfEvaluations job;
  job.reported = {EvaluationAfter(3000, .6)};
  job.reported[0].set_unix_seconds(17);
  job.is_of_this_run = true;
  ASSERT_TRUE(ConcludeEvaluation(v1::JobConfig(), &job,
                                 EvaluationAfter(4000, .7), clock)
                  .ok());
  ASSERT_EQ(job.reported.size(), 1u);
  EXPECT_EQ(job.reported[0].auc(), .6);
}

v1::JobConfig StopsEarly() {
  v1::JobConfig config;
  config.set_early_stop_metric("auc");
  config.set_early_stop_patience(3);
  return config;
}

// Told as the best after 3,000 examples, and not kept.
void TellABest(ListOfEvaluations* job) {
  job->reported = {EvaluationAfter(3000, .6)};
  job->reported[0].set_unix_seconds(17);
  job->reported[0].set_best(true);
  job->is_of_this_run = true;
}

TEST(ConcludeEvaluationTest, ABestOneWhoseTellerDiedKeepsItsCheckpoint) {
  const v1::JobConfig config = StopsEarly();
  const FakeClock clock(absl::FromUnixSeconds(1000));
  ListOfEvaluations job;
  TellABest(&job);
  ASSERT_TRUE(
      ConcludeEvaluation(config, &job, EvaluationAfter(3000, .6), clock).ok());
  EXPECT_EQ(job.num_kept, 1);
  ASSERT_EQ(job.reported.size(), 1u);
  EXPECT_EQ(job.reported[0].checkpoint(), "ckpt-9");
  EXPECT_EQ(job.reported[0].unix_seconds(), 17);
  // Once.
  ASSERT_TRUE(
      ConcludeEvaluation(config, &job, EvaluationAfter(3000, .6), clock).ok());
  EXPECT_EQ(job.num_kept, 1);
}

TEST(ConcludeEvaluationTest, ABestOneAfterWhichWasTrainedIsNotKeptLate) {
  const FakeClock clock(absl::FromUnixSeconds(1000));
  ListOfEvaluations job;
  TellABest(&job);
  ASSERT_TRUE(
      ConcludeEvaluation(StopsEarly(), &job, EvaluationAfter(3500, .6), clock)
          .ok());
  EXPECT_EQ(job.num_kept, 0);
}

TEST(CheckEvaluationTest, WithoutTestFilesThereIsNothingToEvaluate) {
  v1::JobConfig config;
  EXPECT_TRUE(CheckEvaluation(config).ok());
  config.set_evaluate_period(10);
  EXPECT_THAT(CheckEvaluation(config).message(),
              HasSubstr("--evaluate_period 10 needs test files"));
  config.clear_evaluate_period();
  config.set_early_stop_metric("auc");
  EXPECT_EQ(CheckEvaluation(config).code(), absl::StatusCode::kInvalidArgument);
  // GCC 12 warns of overlapping copies in the literal's way here.
  config.add_test_files(std::string("x"));
  EXPECT_TRUE(CheckEvaluation(config).ok());
}

}  // namespace
}  // namespace oarlock::worker
