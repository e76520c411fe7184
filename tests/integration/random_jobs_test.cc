// Jobs of flags that were drawn at random: whatever is allowed ends, trains
// each example once an epoch, stays finite, and trains the same with the math
// of the reference. `--gtest_random_seed=N` draws others; tests/long.sh draws
// more.

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <iostream>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "base/random.h"
#include "proto/config/job_config.pb.h"
#include "tests/data/test_files.h"
#include "tests/worker/training_job.h"
#include "worker/trainer.h"

namespace oarlock::worker {
namespace {

constexpr int kJobs = 200;

class RandomJob {
 public:
  RandomJob(uint64_t seed, const TestFolder& folder) : random_(seed) {
    num_lines_ = random_.Below(120);
    config_.set_data_format(
        One({"criteo", "multi_slot", "multi_slot", "libsvm"}));
    config_.set_num_slots(1 + random_.Below(4));
    config_.set_dense_dim(random_.Below(3));
    std::vector<std::string> lines;
    for (uint64_t i = 0; i < num_lines_; ++i) lines.push_back(Line());
    config_.add_train_files(folder.Write(
        "train", lines.empty() ? "" : absl::StrJoin(lines, "\n") + "\n"));
    if (config_.data_format() != "multi_slot") {
      config_.clear_num_slots();
      config_.clear_dense_dim();
    }
    config_.set_model(One({"lr", "fm", "ffm", "wide_deep", "deepfm", "dcn",
                           "dcn_v2", "xdeepfm", "dlrm", "ctr_dnn", "autoint"}));
    config_.set_mode(One({"sync", "async", "half_async", "ssp", "geo"}));
    config_.set_embedding_size(1 + random_.Below(5));
    config_.set_batch_size(1 + random_.Below(40));
    config_.set_thread_num(1 + random_.Below(3));
    config_.set_epochs(1 + random_.Below(2));
    // So low that nothing diverges.
    config_.set_learning_rate(1e-5);
    config_.set_num_partitions(4);
    config_.set_seed(1 + random_.Below(1000));
    if (Sometimes()) config_.set_dense_norm(One({"batch", "data"}));
    if (Sometimes()) config_.set_hidden_norm("batch");
    if (Sometimes()) config_.set_hidden_sizes(One({"3", "5,2"}));
    if (Sometimes()) config_.set_dropout(.3);
    if (Sometimes()) config_.set_clip_norm(.5);
    if (Sometimes()) config_.set_clip_value(.1);
    if (Sometimes()) config_.set_pooling("mean");
    if (Sometimes()) config_.set_loss("sum");
    if (Sometimes()) config_.set_dense_transform("quick_start");
    if (Sometimes()) config_.set_dataset("memory");
    if (Sometimes()) config_.set_shuffle(One({"local", "global"}));
    if (Sometimes()) config_.set_split(One({"leased", "interleaved"}));
    if (Sometimes()) config_.set_accessor("ctr");
    config_.set_optimizer(One({"sgd", "adagrad", "adam", "momentum", "ftrl",
                               "lazy_adam", "shared_adagrad", "adamw"}));
  }

  const v1::JobConfig& config() const { return config_; }
  uint64_t num_lines() const { return num_lines_; }
  // Number of servers and of workers.
  uint32_t OneOrTwo() { return 1 + random_.Below(2); }

 private:
  bool Sometimes() { return random_.Below(4) == 0; }
  std::string One(const std::vector<std::string>& choices) {
    return choices[random_.Below(choices.size())];
  }
  std::string Number() {
    return absl::StrCat(static_cast<double>(random_.Below(2001)) / 500 - 2);
  }
  std::string Line() {
    if (config_.data_format() == "criteo") {
      std::vector<std::string> fields = {absl::StrCat(random_.Below(2))};
      for (int i = 0; i < 13; ++i) {
        fields.push_back(Sometimes() ? "" : absl::StrCat(random_.Below(20)));
      }
      for (int i = 0; i < 26; ++i) {
        fields.push_back(Sometimes() ? ""
                                     : absl::StrCat("c", random_.Below(9)));
      }
      return absl::StrJoin(fields, "\t");
    }
    if (config_.data_format() == "libsvm") {
      std::string line = absl::StrCat(random_.Below(2));
      for (uint64_t n = random_.Below(5), key = 0; n > 0; --n) {
        key += 1 + random_.Below(20);
        absl::StrAppend(&line, " ", key, ":", Number());
      }
      return line;
    }
    std::vector<std::string> words;
    if (config_.dense_dim() > 0) {
      words.push_back(absl::StrCat(config_.dense_dim()));
      for (int i = 0; i < config_.dense_dim(); ++i) words.push_back(Number());
    }
    for (int slot = 0; slot < config_.num_slots(); ++slot) {
      const uint64_t n = 1 + random_.Below(3);
      words.push_back(absl::StrCat(n));
      for (uint64_t i = 0; i < n; ++i) {
        words.push_back(absl::StrCat(random_.Below(30)));
      }
    }
    words.push_back("1");
    words.push_back(absl::StrCat(random_.Below(2)));
    return absl::StrJoin(words, " ");
  }

  RandomSequence random_;
  uint64_t num_lines_ = 0;
  v1::JobConfig config_;
};

void ExpectTrained(const RandomJob& job, const JobOutcome& outcome) {
  for (const absl::Status& status : outcome.statuses) {
    ASSERT_TRUE(status.ok()) << status;
  }
  for (int epoch = 0; epoch < job.config().epochs(); ++epoch) {
    EXPECT_EQ(outcome.Phase("train", epoch).progress().examples(),
              job.num_lines());
    EXPECT_EQ(outcome.Phase("train", epoch).progress().bad_lines(), 0u);
  }
  for (const float x : outcome.parameters) ASSERT_TRUE(std::isfinite(x));
}

TEST(RandomJobsTest, WhatIsAllowedIsTrained) {
  const uint64_t first =
      static_cast<uint64_t>(GTEST_FLAG_GET(random_seed)) * kJobs;
  int num_run = 0;
  for (uint64_t seed = first;
       seed < first + kJobs && !::testing::Test::HasFailure(); ++seed) {
    const TestFolder folder;
    RandomJob job(seed, folder);
    const v1::JobConfig& config = job.config();
    SCOPED_TRACE(absl::StrCat("seed ", seed, ", ", job.num_lines(), " lines, ",
                              config.ShortDebugString()));
    if (const absl::Status legal = Trainer::CheckConfig(config); !legal.ok()) {
      std::cout << "seed " << seed << ": " << legal.message() << "\n";
      continue;
    }
    ++num_run;
    const JobOutcome local = RunLocalJob(config);
    if (job.num_lines() == 0) {
      // There is nothing to train on, which is told.
      EXPECT_FALSE(local.ok());
      continue;
    }
    ExpectTrained(job, local);
    // Which rows a step has depends on time, but for rounds of one thread.
    v1::JobConfig alone = config;
    alone.set_thread_num(1);
    alone.set_mode("sync");
    const JobOutcome expected = RunLocalJob(alone, "reference");
    const JobOutcome actual = RunLocalJob(alone, "onednn");
    ExpectTrained(job, expected);
    ExpectTrained(job, actual);
    ASSERT_EQ(expected.parameters.size(), actual.parameters.size());
    for (size_t i = 0; i < actual.parameters.size(); ++i) {
      const float a = expected.parameters[i], b = actual.parameters[i];
      EXPECT_NEAR(a, b, 2e-2 * std::max(1.0f, std::abs(a)))
          << "parameter " << i << " of " << actual.parameters.size();
    }
    if (seed % 4 == 0) {
      ExpectTrained(job, RunClusterJob(config, job.OneOrTwo(), job.OneOrTwo()));
    }
  }
  EXPECT_GE(num_run, kJobs / 3) << "of " << kJobs << "; the others are refused";
}

}  // namespace
}  // namespace oarlock::worker
