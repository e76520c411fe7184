// What tests of whole jobs train: a small planted data set and a quick
// configuration.

#ifndef OARLOCK_TESTS_WORKER_TRAINER_TESTING_H_
#define OARLOCK_TESTS_WORKER_TRAINER_TESTING_H_

#include <gtest/gtest.h>

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/str_split.h"
#include "proto/config/job_config.pb.h"
#include "tests/data/test_files.h"
#include "tests/worker/planted_rows.h"
#include "tests/worker/training_job.h"

namespace oarlock::worker {

// 2,450 Criteo lines of a planted model.
class TrainerTest : public ::testing::Test {
 protected:
  static constexpr uint64_t kRows = 2450;

  static void SetUpTestSuite() {
    folder_ = NewPlantedRows(kRows);
    lines_ = absl::StrSplit(data::ReadAll(folder_->Path("part-0")), '\n',
                            absl::SkipEmpty());
    ASSERT_EQ(lines_.size(), kRows);
  }
  static void TearDownTestSuite() { delete folder_; }

  // The first `count` lines, from line `begin` on, as a file.
  std::string Lines(const std::string& name, size_t begin, size_t count) {
    return own_.Write(
        name, absl::StrCat(absl::StrJoin(lines_.begin() + begin,
                                         lines_.begin() + begin + count, "\n"),
                           "\n"));
  }

  // Small and quick; the learning rate is full from the first step.
  v1::JobConfig Config(const std::string& model = "lr") {
    v1::JobConfig config;
    config.set_model(model);
    config.add_train_files(folder_->Path("part-0"));
    config.set_sparse_feature_dim(5000);
    config.set_embedding_size(4);
    config.set_batch_size(100);
    config.set_optimizer("adagrad");
    config.set_adagrad_initial_accumulator(.1);
    config.set_learning_rate(.05);
    config.set_warmup_steps(0);
    config.set_num_partitions(64);
    return config;
  }
  v1::JobConfig SyncConfig(const std::string& model = "lr") {
    v1::JobConfig config = Config(model);
    config.set_mode("sync");
    return config;
  }

  static void ExpectOk(const JobOutcome& outcome) {
    for (const absl::Status& status : outcome.statuses) {
      ASSERT_TRUE(status.ok()) << status;
    }
  }

  static inline TestFolder* folder_ = nullptr;
  static inline std::vector<std::string> lines_;
  // Of this test alone.
  TestFolder own_;
};

}  // namespace oarlock::worker

#endif  // OARLOCK_TESTS_WORKER_TRAINER_TESTING_H_
