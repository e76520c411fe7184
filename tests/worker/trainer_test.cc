#include "worker/trainer.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <chrono>
#include <cstdint>
#include <future>
#include <string>

#include "absl/strings/str_cat.h"
#include "base/random.h"
#include "tests/data/test_files.h"
#include "tests/integration/mini_cluster.h"
#include "tests/worker/trainer_testing.h"
#include "tests/worker/training_job.h"

namespace oarlock::worker {
namespace {

using ::testing::HasSubstr;
using ::testing::Not;

// Parameters that are compared must have been trained: some of them, at least
// this far from where they began.
constexpr float kMoved = .01f;

TEST_F(TrainerTest, AucRisesOverTwoEpochsAlone) {
  v1::JobConfig config = Config();
  config.set_epochs(2);
  config.set_lookahead_batches(0);
  config.add_test_files(Lines("test", 0, 500));
  const JobOutcome outcome = RunLocalJob(config);
  ExpectOk(outcome);
  for (uint32_t epoch : {0, 1}) {
    EXPECT_EQ(outcome.Phase("train", epoch).progress().examples(), kRows);
    EXPECT_EQ(outcome.Phase("test", epoch).progress().examples(), 500u);
  }
  EXPECT_GT(outcome.Phase("train", 1).auc(),
            outcome.Phase("train", 0).auc() + .02);
  EXPECT_LT(outcome.Phase("train", 1).logloss(),
            outcome.Phase("train", 0).logloss());
  // Of rows that were trained on.
  EXPECT_GT(outcome.Phase("test", 1).auc(), outcome.Phase("test", 0).auc());
  EXPECT_GT(outcome.Phase("test", 0).auc(), .55);
  EXPECT_EQ(outcome.summary.examples, 2 * kRows);
  EXPECT_EQ(outcome.summary.train_auc, outcome.Phase("train", 1).auc());
  EXPECT_EQ(outcome.summary.test_auc, outcome.Phase("test", 1).auc());
}

TEST_F(TrainerTest, AucRisesOverTwoEpochsThroughServers) {
  v1::JobConfig config = Config("deepfm");
  config.set_epochs(2);
  const JobOutcome outcome = RunClusterJob(config, 2, 2);
  ExpectOk(outcome);
  EXPECT_EQ(outcome.summary.examples, 2 * kRows);
  EXPECT_GT(outcome.Phase("train", 1).auc(),
            outcome.Phase("train", 0).auc() + .02);
}

TEST_F(TrainerTest, EvaluationChangesNothing) {
  v1::JobConfig config = SyncConfig();
  const JobOutcome without = RunLocalJob(config);
  config.add_test_files(Lines("test", 0, 300));
  const JobOutcome with = RunLocalJob(config);
  ExpectOk(without);
  ExpectOk(with);
  EXPECT_EQ(with.Phase("test", 0).progress().examples(), 300u);
  EXPECT_EQ(with.parameters, without.parameters);
}

// 2,450 rows are 12 rounds of 200 or 8 of 300, and one in which the first
// worker has half a batch and the others nothing.
class SyncEquality : public TrainerTest,
                     public ::testing::WithParamInterface<const char*> {
 protected:
  // `same` holds up to float rounding what `job` learned.
  void ExpectSameUpToRounding(const JobOutcome& job, const JobOutcome& same,
                              const v1::JobConfig& config) {
    ExpectOk(job);
    ExpectOk(same);
    const float moved =
        LargestDifference(job.parameters, InitialParameters(config));
    EXPECT_GT(moved, kMoved);
    EXPECT_LT(LargestDifference(job.parameters, same.parameters),
              1e-4f * moved);
  }
};

TEST_P(SyncEquality, WorkersEqualOneOfTheirBatches) {
  for (const uint32_t workers : {2, 3}) {
    SCOPED_TRACE(workers);
    v1::JobConfig config = SyncConfig(GetParam());
    const JobOutcome many = RunClusterJob(config, 2, workers);
    config.set_batch_size(config.batch_size() * workers);
    ExpectSameUpToRounding(many, RunClusterJob(config, 2, 1), config);
  }
}

TEST_P(SyncEquality, ThreadsEqualOneOfTheirBatches) {
  for (const int threads : {2, 3}) {
    SCOPED_TRACE(threads);
    v1::JobConfig config = SyncConfig(GetParam());
    config.set_thread_num(threads);
    const JobOutcome many = RunClusterJob(config, 1, 1);
    config.set_thread_num(1);
    config.set_batch_size(config.batch_size() * threads);
    ExpectSameUpToRounding(many, RunLocalJob(config), config);
  }
}

TEST_P(SyncEquality, SummedLossOfTwoWorkersEqualsThatOfOne) {
  v1::JobConfig config = SyncConfig(GetParam());
  config.set_loss("sum");
  config.set_learning_rate(.02);
  const JobOutcome two = RunClusterJob(config, 2, 2);
  config.set_batch_size(200);
  ExpectSameUpToRounding(two, RunClusterJob(config, 1, 1), config);
}

TEST_P(SyncEquality, WorkersOfThreadsEqualOneOfTheirBatches) {
  for (const char* loss : {"mean", "sum"}) {
    SCOPED_TRACE(loss);
    v1::JobConfig config = SyncConfig(GetParam());
    config.set_loss(loss);
    config.set_learning_rate(.02);
    config.set_batch_size(50);
    config.set_thread_num(2);
    const JobOutcome four = RunClusterJob(config, 2, 2);
    config.set_thread_num(1);
    config.set_batch_size(200);
    ExpectSameUpToRounding(four, RunClusterJob(config, 1, 1), config);
  }
}

TEST_P(SyncEquality, RunsAreBitwiseEqualOnOneServerAndOnThree) {
  v1::JobConfig config = SyncConfig(GetParam());
  config.set_thread_num(2);
  config.set_batch_size(50);
  const JobOutcome first = RunClusterJob(config, 1, 2);
  const JobOutcome again = RunClusterJob(config, 1, 2);
  const JobOutcome three = RunClusterJob(config, 3, 2);
  ExpectOk(first);
  ExpectOk(again);
  ExpectOk(three);
  EXPECT_GT(LargestDifference(first.parameters, InitialParameters(config)),
            kMoved);
  EXPECT_TRUE(first.parameters == again.parameters)
      << "off by " << LargestDifference(first.parameters, again.parameters);
  EXPECT_TRUE(first.parameters == three.parameters)
      << "off by " << LargestDifference(first.parameters, three.parameters);
}

INSTANTIATE_TEST_SUITE_P(Models, SyncEquality,
                         ::testing::Values("lr", "ctr_dnn"));

TEST_F(TrainerTest, OtherSeedIsAnotherRun) {
  v1::JobConfig config = SyncConfig("deepfm");
  const JobOutcome one = RunLocalJob(config);
  config.set_seed(2);
  const JobOutcome two = RunLocalJob(config);
  ExpectOk(one);
  ExpectOk(two);
  EXPECT_GT(LargestDifference(one.parameters, two.parameters), .001f);
}

// A step of 33 rows moves the parameters by what its 33 rows weigh in a batch
// of 100: as a summed loss does at a hundredth of the learning rate.
TEST_F(TrainerTest, ShortBatchIsScaledByTheNominalBatchSize) {
  for (const char* mode : {"async", "sync"}) {
    SCOPED_TRACE(mode);
    v1::JobConfig config = Config();
    config.clear_train_files();
    config.add_train_files(Lines("short", 0, 33));
    config.set_mode(mode);
    config.set_optimizer("sgd");
    config.set_learning_rate(1);
    const JobOutcome mean = RunLocalJob(config);
    const float moved =
        LargestDifference(mean.parameters, InitialParameters(config));
    config.set_loss("sum");
    config.set_learning_rate(.01);
    const JobOutcome sum = RunLocalJob(config);
    ExpectOk(mean);
    ExpectOk(sum);
    EXPECT_GT(moved, kMoved);
    EXPECT_LT(LargestDifference(mean.parameters, sum.parameters),
              1e-5f * moved);
  }
}

TEST_F(TrainerTest, MoreThreadsThanFilesTrainEveryExampleOnce) {
  v1::JobConfig config = Config();
  config.set_thread_num(7);
  config.set_batch_size(20);
  const JobOutcome alone = RunLocalJob(config);
  ExpectOk(alone);
  EXPECT_EQ(alone.summary.examples, kRows);
  for (const char* mode : {"async", "half_async", "ssp", "sync"}) {
    config.set_mode(mode);
    const JobOutcome cluster = RunClusterJob(config, 2, 3);
    ExpectOk(cluster);
    EXPECT_EQ(cluster.summary.examples, kRows);
  }
}

TEST_F(TrainerTest, MoreWorkersThanExamplesEndWell) {
  v1::JobConfig config = Config();
  config.clear_train_files();
  config.add_train_files(Lines("tiny", 0, 3));
  config.set_batch_size(1);
  for (const char* mode : {"async", "half_async", "ssp", "sync"}) {
    config.set_mode(mode);
    const JobOutcome outcome = RunClusterJob(config, 1, 5);
    ExpectOk(outcome);
    EXPECT_EQ(outcome.summary.examples, 3u);
  }
}

// Multi-slot lines: 13 dense features, 26 slots of one to three keys, label.
std::string MultiSlotLines(size_t count) {
  RandomSequence random(12);
  std::string text;
  for (size_t i = 0; i < count; ++i) {
    absl::StrAppend(&text, "13");
    for (int d = 0; d < 13; ++d) {
      absl::StrAppend(&text, " ", random.Below(100) / 128.0);
    }
    for (int slot = 0; slot < 26; ++slot) {
      const uint64_t keys = 1 + random.Below(3);
      absl::StrAppend(&text, " ", keys);
      for (uint64_t k = 0; k < keys; ++k) {
        absl::StrAppend(&text, " ", random.Below(300));
      }
    }
    absl::StrAppend(&text, " 1 ", random.Below(2), "\n");
  }
  return text;
}

TEST_F(TrainerTest, PipeCommandGivesWhatTheFileGives) {
  const struct {
    const char* format;
    std::string file;
  } cases[] = {{"multi_slot", own_.Write("slots", MultiSlotLines(950))},
               {"criteo", Lines("criteo", 0, 950)}};
  for (const auto& c : cases) {
    SCOPED_TRACE(c.format);
    v1::JobConfig config = SyncConfig("deepfm");
    config.clear_train_files();
    config.add_train_files(c.file);
    config.set_data_format(c.format);
    const JobOutcome direct = RunLocalJob(config);
    ExpectOk(direct);
    EXPECT_EQ(direct.summary.examples, 950u);
    EXPECT_GT(LargestDifference(direct.parameters, InitialParameters(config)),
              kMoved);
    config.set_pipe_command("cat");
    const JobOutcome piped = RunLocalJob(config);
    ExpectOk(piped);
    EXPECT_EQ(piped.summary.examples, 950u);
    EXPECT_TRUE(direct.parameters == piped.parameters)
        << "off by " << LargestDifference(direct.parameters, piped.parameters);
  }
}

TEST_F(TrainerTest, PipedFilesAreSharedOutAmongWorkers) {
  v1::JobConfig config = Config();
  config.clear_train_files();
  for (const char* name : {"a", "b", "c"}) {
    config.add_train_files(own_.Write(name, MultiSlotLines(130)));
  }
  config.set_pipe_command("cat");
  for (const char* mode : {"async", "half_async", "ssp", "sync"}) {
    config.set_mode(mode);
    const JobOutcome outcome = RunClusterJob(config, 1, 2);
    ExpectOk(outcome);
    EXPECT_EQ(outcome.summary.examples, 390u);
  }
}

TEST_F(TrainerTest, TooManyBadLinesFailTheJobWithOneLine) {
  v1::JobConfig config = Config();
  config.clear_train_files();
  const std::string good = Lines("good", 0, 300);
  const std::string path = own_.Write(
      "bad", data::ReadAll(good) + "not\na\nline\n" + data::ReadAll(good));
  config.add_train_files(path);
  config.set_bad_lines_max(3);
  for (const char* mode : {"async", "half_async", "ssp", "sync"}) {
    SCOPED_TRACE(mode);
    config.set_mode(mode);
    config.set_bad_lines_max(3);
    const JobOutcome accepted = RunLocalJob(config);
    ExpectOk(accepted);
    EXPECT_EQ(accepted.summary.examples, 600u);
    EXPECT_EQ(accepted.summary.bad_lines, 3u);

    config.set_bad_lines_max(2);
    const JobOutcome alone = RunLocalJob(config);
    const std::string message(alone.statuses[0].message());
    EXPECT_EQ(alone.statuses[0].code(), absl::StatusCode::kInvalidArgument);
    EXPECT_THAT(message, HasSubstr("too many malformed lines: 3"));
    EXPECT_THAT(message, HasSubstr(path + ":301: "));
    EXPECT_THAT(message, Not(HasSubstr("\n")));
  }
}

TEST_F(TrainerTest, FailureOfOneWorkerEndsTheOthersWithItsReason) {
  v1::JobConfig config = Config();
  config.clear_train_files();
  config.add_train_files(own_.Write(
      "bad",
      absl::StrCat(data::ReadAll(Lines("good", 0, 2400)), "not a line\n")));
  config.set_bad_lines_max(0);
  config.set_epochs(50);
  for (const char* mode : {"async", "half_async", "ssp", "sync"}) {
    SCOPED_TRACE(mode);
    config.set_mode(mode);
    MiniClusterOptions options;
    options.num_servers = 2;
    options.num_workers = 3;
    // Heartbeats carry the news.
    std::future<JobOutcome> job = std::async(
        std::launch::async, [&] { return RunClusterJob(config, options); });
    EXPECT_EQ(job.wait_for(std::chrono::minutes(1)), std::future_status::ready);
    const JobOutcome outcome = job.get();
    for (const absl::Status& status : outcome.statuses) {
      EXPECT_FALSE(status.ok());
      EXPECT_THAT(std::string(status.message()),
                  HasSubstr("too many malformed lines"));
      EXPECT_THAT(std::string(status.message()), Not(HasSubstr("\n")));
    }
  }
}

TEST_F(TrainerTest, PatternThatMatchesNothingIsNotFound) {
  v1::JobConfig config = Config();
  config.clear_train_files();
  config.add_train_files(own_.Path("none-*"));
  const JobOutcome outcome = RunLocalJob(config);
  EXPECT_EQ(outcome.statuses[0].code(), absl::StatusCode::kNotFound);
  EXPECT_THAT(std::string(outcome.statuses[0].message()), HasSubstr("none-*"));
}

TEST_F(TrainerTest, AJobThatTrainsNotOneExampleFails) {
  v1::JobConfig empty = Config();
  empty.clear_train_files();
  empty.add_train_files(own_.Write("empty", ""));
  empty.set_epochs(2);
  v1::JobConfig malformed = empty;
  malformed.set_train_files(0, own_.Write("malformed", "some\nlines\n"));
  malformed.set_epochs(1);
  v1::JobConfig dropped = Config();
  dropped.set_split("interleaved");
  dropped.set_drop_tail(true);
  dropped.set_batch_size(kRows + 1);
  v1::JobConfig rounds = empty;
  rounds.set_mode("sync");
  const auto expect = [](const v1::JobConfig& config, const std::string& why) {
    const JobOutcome alone = RunLocalJob(config);
    EXPECT_EQ(alone.statuses[0].code(), absl::StatusCode::kFailedPrecondition);
    EXPECT_EQ(std::string(alone.statuses[0].message()),
              absl::StrCat("no example of --train_files ",
                           config.train_files(0), " was trained: ", why));
    // Who fails first ends the job for the other.
    const JobOutcome cluster = RunClusterJob(config, 1, 2);
    EXPECT_FALSE(cluster.statuses[0].ok());
    EXPECT_FALSE(cluster.statuses[1].ok());
  };
  expect(empty, "not a line was read; name files that have some");
  expect(rounds, "not a line was read; name files that have some");
  expect(malformed,
         "all that was read are 2 malformed lines; the first is in the log of "
         "a worker; name other files, or their --data_format");
  expect(dropped,
         "it has no lines, or too few for a batch of --batch_size 2451 on each "
         "worker; lower it, or leave --drop_tail out");
}

TEST_F(TrainerTest, AJobThatGoesOnMayHaveNothingLeftToTrain) {
  v1::JobConfig config = Config();
  config.clear_train_files();
  config.add_train_files(own_.Write("empty", ""));
  config.set_resume(true);
  ExpectOk(RunLocalJob(config));
}

TEST_F(TrainerTest, InterleavedSplitDoesNotGoWithACommand) {
  v1::JobConfig config = Config();
  config.set_pipe_command("cat");
  config.set_split("interleaved");
  const JobOutcome outcome = RunLocalJob(config);
  EXPECT_EQ(outcome.statuses[0].code(), absl::StatusCode::kInvalidArgument);
  EXPECT_THAT(std::string(outcome.statuses[0].message()),
              HasSubstr("--pipe_command"));
}

TEST_F(TrainerTest, DevicesThatAreNoneAreRefusedBeforeTheJob) {
  const auto check = [&](const char* device, const char* math) {
    v1::JobConfig config = Config();
    config.set_device(device);
    config.set_dense_math(math);
    return Trainer::CheckConfig(config);
  };
  for (const char* device : {"tpu", "gpu:x", ""}) {
    const absl::Status status = check(device, "float32");
    EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument) << device;
    EXPECT_THAT(std::string(status.message()),
                HasSubstr("legal are cpu, gpu, gpu:N"));
  }
  EXPECT_EQ(check("cpu", "tf32").code(), absl::StatusCode::kInvalidArgument);
  // A server says nothing of GPUs: it needs none.
  for (const char* device : {"gpu", "gpu:1000", "auto"}) {
    EXPECT_TRUE(check(device, "tf32").ok()) << device;
  }
}

TEST_F(TrainerTest, AWorkerWithoutItsGpuEndsTheJobWithOneLine) {
  v1::JobConfig config = Config();
  config.set_device("gpu:1000");
  for (const JobOutcome& outcome :
       {RunLocalJob(config), RunClusterJob(config, 1, 1)}) {
    EXPECT_FALSE(outcome.ok());
    const absl::Status& status = outcome.statuses[0];
    EXPECT_EQ(status.code(), absl::StatusCode::kFailedPrecondition) << status;
    EXPECT_THAT(std::string(status.message()),
                HasSubstr("--device is gpu:1000"));
    EXPECT_THAT(std::string(status.message()), Not(HasSubstr("\n")));
  }
}

}  // namespace
}  // namespace oarlock::worker
