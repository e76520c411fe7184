// Jobs on shuffled, repeated, sampled and loaded data: every example as
// often as the options say, and the same run every time.

#include "worker/input/training_data.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>

#include "absl/strings/str_cat.h"
#include "data/synthetic/criteo_generator.h"
#include "tests/data/test_files.h"
#include "tests/worker/planted_rows.h"
#include "tests/worker/training_job.h"
#include "worker/trainer.h"

namespace oarlock::worker {
namespace {

using ::testing::HasSubstr;

constexpr uint64_t kRows = 1930;

class TrainingDataTest : public ::testing::Test {
 protected:
  static void SetUpTestSuite() { folder_ = NewPlantedRows(kRows, /*files=*/3); }
  static void TearDownTestSuite() { delete folder_; }

  v1::JobConfig Config(const std::string& mode) {
    v1::JobConfig config;
    config.set_mode(mode);
    config.set_model("lr");
    config.add_train_files(folder_->Path("part-*"));
    config.set_sparse_feature_dim(5000);
    config.set_batch_size(100);
    config.set_epochs(2);
    config.set_learning_rate(.05);
    config.set_warmup_steps(0);
    config.set_num_partitions(64);
    config.set_shuffle_window_examples(300);
    return config;
  }

  static void ExpectOk(const JobOutcome& outcome) {
    for (const absl::Status& status : outcome.statuses) {
      ASSERT_TRUE(status.ok()) << status;
    }
  }
  static uint64_t Examples(const JobOutcome& outcome, uint32_t epoch) {
    return outcome.Phase("train", epoch).progress().examples();
  }

  static TestFolder* folder_;
};
TestFolder* TrainingDataTest::folder_ = nullptr;

TEST_F(TrainingDataTest, EveryEpochHasEveryExampleOnceHoweverItIsDivided) {
  for (const char* dataset : {"queue", "memory"}) {
    for (const char* shuffle : {"none", "local", "global"}) {
      for (const char* split : {"auto", "contiguous", "by_file"}) {
        const bool by_file = std::string(split) == "by_file";
        if (by_file && std::string(shuffle) == "global") continue;
        SCOPED_TRACE(absl::StrCat(dataset, " ", shuffle, " ", split));
        v1::JobConfig config = Config("async");
        config.set_dataset(dataset);
        config.set_shuffle(shuffle);
        config.set_split(split);
        const JobOutcome outcome = RunClusterJob(config, 1, 2);
        ExpectOk(outcome);
        EXPECT_EQ(Examples(outcome, 0), kRows);
        EXPECT_EQ(Examples(outcome, 1), kRows);
      }
    }
  }
}

TEST_F(TrainingDataTest, ShuffledSyncRunsAreBitwiseEqualAndTwoWorkersEqualOne) {
  for (const char* dataset : {"queue", "memory"}) {
    SCOPED_TRACE(dataset);
    v1::JobConfig config = Config("sync");
    config.set_shuffle("global");
    config.set_dataset(dataset);
    const JobOutcome one = RunClusterJob(config, 1, 2);
    const JobOutcome again = RunClusterJob(config, 3, 2);
    ExpectOk(one);
    ExpectOk(again);
    EXPECT_EQ(one.parameters, again.parameters);
    config.set_batch_size(200);
    const JobOutcome alone = RunClusterJob(config, 1, 1);
    ExpectOk(alone);
    EXPECT_LT(LargestDifference(one.parameters, alone.parameters), 1e-4f);
    // Another seed is another order.
    config.set_seed(2);
    const JobOutcome other = RunClusterJob(config, 1, 1);
    ExpectOk(other);
    EXPECT_GT(LargestDifference(other.parameters, alone.parameters), 1e-3f);
  }
}

TEST_F(TrainingDataTest, MemoryTrainsWhatTheQueueTrains) {
  for (const char* shuffle : {"none", "local", "global"}) {
    SCOPED_TRACE(shuffle);
    v1::JobConfig config = Config("sync");
    config.set_shuffle(shuffle);
    config.set_split("interleaved");
    const JobOutcome queue = RunClusterJob(config, 1, 2);
    config.set_dataset("memory");
    const JobOutcome memory = RunClusterJob(config, 1, 2);
    config.set_preload(false);
    const JobOutcome in_turn = RunClusterJob(config, 1, 2);
    ExpectOk(queue);
    ExpectOk(memory);
    ExpectOk(in_turn);
    EXPECT_EQ(queue.parameters, memory.parameters);
    EXPECT_EQ(queue.parameters, in_turn.parameters);
  }
}

TEST_F(TrainingDataTest, SamplingRulesCountAsTheySay) {
  v1::JobConfig config = Config("sync");
  config.set_shuffle("global");
  config.set_repeats_per_epoch(3);
  config.set_epochs(1);
  JobOutcome outcome = RunClusterJob(config, 1, 2);
  ExpectOk(outcome);
  EXPECT_EQ(Examples(outcome, 0), 3 * kRows);
  config.set_repeats_per_epoch(1);
  config.set_drop_tail(true);
  outcome = RunClusterJob(config, 1, 2);
  ExpectOk(outcome);
  EXPECT_EQ(Examples(outcome, 0), kRows / 200 * 200);
  config.set_drop_tail(false);
  config.set_sampling("with_replacement");
  outcome = RunClusterJob(config, 1, 2);
  ExpectOk(outcome);
  EXPECT_EQ(Examples(outcome, 0), 2 * kRows);
}

TEST_F(TrainingDataTest, ACommandsOutputIsShuffledInMemory) {
  v1::JobConfig config = Config("async");
  // Two of a line's columns as multi-slot text.
  config.set_pipe_command(
      "awk -F'\\t' '{printf \"13\"; for (i = 0; i < 13; ++i) printf \" %d\", "
      "$2; for (i = 0; i < 26; ++i) printf \" 1 %d\", NR + i; print \" 1\", "
      "$1}'");
  config.set_dataset("memory");
  config.set_shuffle("global");
  const JobOutcome outcome = RunClusterJob(config, 1, 2);
  ExpectOk(outcome);
  EXPECT_EQ(Examples(outcome, 1), kRows);
}

// Lines of three slots of no or several values and no dense features.
std::string SlotLines(uint64_t count) {
  std::string text;
  for (uint64_t i = 0; i < count; ++i) {
    const uint64_t a = i * 7 % 23;
    const uint64_t b = 30 + i * 5 % 17;
    absl::StrAppend(&text, "2 ", a, " ", b, " 0 3 ", i % 11, " ", b, " ", b,
                    " 1 ", (a + b) % 3 == 0 ? 1 : 0, "\n");
  }
  return text;
}

TEST_F(TrainingDataTest, MultiSlotLinesMayHaveAnyShape) {
  TestFolder folder;
  v1::JobConfig config = Config("async");
  config.set_data_format("multi_slot");
  config.set_dense_dim(0);
  config.set_num_slots(3);
  config.clear_train_files();
  config.add_train_files(folder.Write("train", SlotLines(730)));
  config.add_test_files(folder.Write("test", SlotLines(90)));
  for (const char* model : {"lr", "dlrm"}) {
    for (const char* dataset : {"queue", "memory"}) {
      for (const char* mode : {"async", "sync"}) {
        SCOPED_TRACE(absl::StrCat(model, " ", dataset, " ", mode));
        config.set_model(model);
        config.set_dataset(dataset);
        config.set_shuffle(dataset == std::string("memory") ? "global"
                                                            : "none");
        config.set_mode(mode);
        const JobOutcome outcome = RunClusterJob(config, 1, 2);
        ExpectOk(outcome);
        EXPECT_EQ(Examples(outcome, 1), 730u);
        EXPECT_EQ(outcome.Phase("test", 1).progress().examples(), 90u);
        EXPECT_EQ(outcome.Phase("train", 1).progress().bad_lines(), 0u);
      }
    }
  }
}

TEST_F(TrainingDataTest, OptionsThatContradictEachOtherAreOneLine) {
  const auto refused = [&](auto change) {
    v1::JobConfig config = Config("async");
    config.clear_shuffle_window_examples();
    change(config);
    const absl::Status status = Trainer::CheckConfig(config);
    EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument);
    EXPECT_EQ(status.message().find('\n'), absl::string_view::npos);
    return std::string(status.message());
  };
  EXPECT_THAT(refused([](auto& c) {
                c.set_dataset("memory");
                c.set_split("leased");
              }),
              HasSubstr("--dataset memory"));
  EXPECT_THAT(refused([](auto& c) { c.set_sampling("with_replacement"); }),
              HasSubstr("--shuffle global"));
  EXPECT_THAT(refused([](auto& c) { c.set_drop_tail(true); }),
              HasSubstr("--split interleaved"));
  EXPECT_THAT(refused([](auto& c) {
                c.set_split("by_file");
                c.set_shuffle("global");
              }),
              HasSubstr("--shuffle local"));
  EXPECT_THAT(refused([](auto& c) {
                c.set_pipe_command("cat");
                c.set_shuffle("global");
              }),
              HasSubstr("--dataset memory"));
  EXPECT_THAT(refused([](auto& c) { c.set_num_slots(3); }),
              HasSubstr("--data_format multi_slot"));
  EXPECT_THAT(refused([](auto& c) {
                c.set_data_format("multi_slot");
                c.set_dense_dim(-1);
              }),
              HasSubstr("dense_dim is -1; legal is 0 to 65536"));
  EXPECT_THAT(refused([](auto& c) {
                c.set_data_format("multi_slot");
                c.set_num_slots(0);
              }),
              HasSubstr("num_slots is 0; legal is 1 to 4096"));
  for (const char* norm : {"batch", "data"}) {
    EXPECT_THAT(refused([&](auto& c) {
                  c.set_data_format("multi_slot");
                  c.set_dense_dim(0);
                  c.set_dense_norm(norm);
                }),
                HasSubstr(absl::StrCat("--dense_norm is ", norm,
                                       ", but --dense_dim is 0")));
  }
}

TEST_F(TrainingDataTest, AShareThatIsTooLargeEndsTheJobNamingTheLimit) {
  TestFolder folder;
  data::GeneratorOptions options;
  options.rows = 6000;
  options.files = 1;
  options.out_dir = folder.path();
  ASSERT_TRUE(data::GenerateCriteo(options).ok());
  v1::JobConfig config = Config("async");
  config.clear_train_files();
  config.add_train_files(folder.Path("part-0"));
  config.set_dataset("memory");
  config.set_dataset_memory_mb(1);
  const JobOutcome outcome = RunLocalJob(config);
  EXPECT_EQ(outcome.statuses[0].code(), absl::StatusCode::kResourceExhausted);
  EXPECT_THAT(std::string(outcome.statuses[0].message()),
              HasSubstr("--dataset_memory_mb"));
}

TEST_F(TrainingDataTest, LibsvmValuesWeighTheirFeatures) {
  TestFolder folder;
  std::string weighed;
  std::string repeated;
  for (int i = 0; i < 400; ++i) {
    const int a = i * 7 % 23;
    const int b = 30 + i * 5 % 17;
    const int label = (a + b) % 3 == 0;
    absl::StrAppend(&weighed, label, " ", a, ":2 ", b, ":1\n");
    absl::StrAppend(&repeated, label, " ", a, ":1 ", a, ":1 ", b, ":1\n");
  }
  v1::JobConfig config = Config("sync");
  config.set_data_format("libsvm");
  config.clear_train_files();
  config.add_train_files(folder.Write("weighed", weighed));
  const JobOutcome one = RunLocalJob(config);
  ExpectOk(one);
  config.clear_train_files();
  config.add_train_files(folder.Write("repeated", repeated));
  const JobOutcome other = RunLocalJob(config);
  ExpectOk(other);
  EXPECT_LT(LargestDifference(one.parameters, other.parameters), 1e-6f);
  config.set_dataset("memory");
  config.set_shuffle("global");
  ExpectOk(RunLocalJob(config));
}

TEST_F(TrainingDataTest, CommentsOfLibsvmAreNoExamplesHoweverTheyAreRead) {
  TestFolder folder;
  std::string text = "# made by a tool\n#\n";
  for (int i = 0; i < 300; ++i) {
    absl::StrAppend(&text, i % 2, " ", i % 23, ":2 30:1\n");
    if (i % 10 == 0) absl::StrAppend(&text, " # ", i, "\n");
  }
  v1::JobConfig config = Config("async");
  config.set_data_format("libsvm");
  config.set_bad_lines_max(0);
  config.clear_train_files();
  config.add_train_files(folder.Write("data", text));
  for (const char* dataset : {"queue", "memory"}) {
    for (const char* shuffle : {"none", "global"}) {
      SCOPED_TRACE(absl::StrCat(dataset, " ", shuffle));
      config.set_dataset(dataset);
      config.set_shuffle(shuffle);
      const JobOutcome outcome = RunLocalJob(config);
      ExpectOk(outcome);
      for (const uint32_t epoch : {0, 1}) {
        EXPECT_EQ(Examples(outcome, epoch), 300u);
        EXPECT_EQ(outcome.Phase("train", epoch).progress().bad_lines(), 0u);
      }
    }
  }
}

}  // namespace
}  // namespace oarlock::worker
