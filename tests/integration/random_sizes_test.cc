// Jobs of one server whose sizes were drawn at random, large ones included:
// none meets the limit of a message. `--gtest_random_seed=N` draws others;
// tests/long.sh draws 500.

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <fstream>
#include <iostream>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "base/random.h"
#include "proto/config/job_config.pb.h"
#include "tests/base/test_folder.h"
#include "tests/worker/training_job.h"
#include "worker/trainer.h"

namespace oarlock::worker {
namespace {

constexpr int kJobs = 5;
// So that a run takes a second or two: three messages of rows, two of dense
// parameters, in a batch.
constexpr uint64_t kMaxFloatsOfBatch = 48 << 20;
constexpr uint64_t kMaxKeysOfBatch = 300'000;
constexpr uint64_t kMaxDense = 24 << 20;

class RandomSizes {
 public:
  explicit RandomSizes(uint64_t seed) : random_(seed) {}

  v1::JobConfig Draw(const TestFolder& folder) {
    v1::JobConfig config;
    config.set_data_format("multi_slot");
    config.set_dense_dim(0);
    config.set_model(One({"lr", "fm", "wide_deep", "deepfm", "ctr_dnn"}));
    config.set_mode(One({"sync", "async", "half_async", "ssp", "geo"}));
    config.set_embedding_size(UpTo(1024));
    config.set_num_slots(UpTo(64));
    config.set_num_partitions(1 << random_.Below(17));
    const uint64_t dim = config.embedding_size() + 1;
    const uint64_t keys = std::min(
        kMaxKeysOfBatch,
        std::max<uint64_t>(kMaxFloatsOfBatch / dim, config.num_slots()));
    config.set_batch_size(
        UpTo(std::max<uint64_t>(1, keys / config.num_slots())));
    const uint64_t inputs =
        uint64_t(config.num_slots()) * config.embedding_size();
    if (config.model() != "lr" && config.model() != "fm") {
      config.set_hidden_sizes(absl::StrCat(
          UpTo(std::clamp<uint64_t>(kMaxDense / inputs, 1, 4096))));
    }
    config.set_thread_num(1 + random_.Below(2));
    config.set_optimizer(One({"sgd", "adam"}));
    config.set_pull_format(One({"float32", "bfloat16"}));
    config.set_push_format(One({"float32", "bfloat16"}));
    if (Sometimes()) config.set_lookahead_batches(random_.Below(8));
    if (Sometimes())
      config.set_max_unacknowledged_pushes(1 + random_.Below(60));
    if (Sometimes()) config.set_dense_interval_steps(UpTo(1000));
    if (Sometimes()) config.set_row_cache_rows(UpTo(1'000'000));
    config.set_learning_rate(1e-6);
    config.set_epochs(1);
    // Three batches, mostly of keys of their own.
    num_lines_ = 3 * uint64_t(config.batch_size());
    const std::string path = folder.Path("train");
    std::ofstream out(path);
    std::string text;
    for (uint64_t i = 0; i < num_lines_; ++i) {
      text.clear();
      for (int slot = 0; slot < config.num_slots(); ++slot) {
        absl::StrAppend(&text, "1 ", random_.Below(1u << 31), " ");
      }
      absl::StrAppend(&text, "1 ", i % 2, "\n");
      out << text;
    }
    config.add_train_files(path);
    return config;
  }
  uint64_t num_lines() const { return num_lines_; }

 private:
  bool Sometimes() { return random_.Below(4) == 0; }
  std::string One(const std::vector<std::string>& choices) {
    return choices[random_.Below(choices.size())];
  }
  // Its logarithm is uniform; the largest value is one of three.
  uint64_t UpTo(uint64_t max) {
    if (random_.Below(3) == 0) return max;
    return static_cast<uint64_t>(
        std::pow(static_cast<double>(max), random_.Uniform()));
  }

  RandomSequence random_;
  uint64_t num_lines_ = 0;
};

TEST(RandomSizesTest, NoneMeetsTheLimitOfAMessage) {
  const uint64_t first =
      static_cast<uint64_t>(GTEST_FLAG_GET(random_seed)) * kJobs;
  int num_run = 0;
  for (uint64_t seed = first; seed < first + kJobs; ++seed) {
    const TestFolder folder;
    RandomSizes sizes(seed);
    const v1::JobConfig config = sizes.Draw(folder);
    SCOPED_TRACE(absl::StrCat("seed ", seed, ": ", config.ShortDebugString()));
    if (const absl::Status legal = Trainer::CheckConfig(config); !legal.ok()) {
      std::cout << "seed " << seed << ": " << legal.message() << "\n";
      continue;
    }
    ++num_run;
    MiniClusterOptions cluster;
    cluster.num_partitions = config.num_partitions();
    const JobOutcome outcome = RunClusterJob(config, cluster);
    ASSERT_TRUE(outcome.statuses[0].ok()) << outcome.statuses[0];
    EXPECT_EQ(outcome.Phase("train", 0).progress().examples(),
              sizes.num_lines());
  }
  EXPECT_GE(num_run, 1);
}

}  // namespace
}  // namespace oarlock::worker
