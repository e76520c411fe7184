// What half-async and ssp training equal where they are at their ends.

#include <gtest/gtest.h>

#include <cstdint>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/strings/str_cat.h"
#include "absl/synchronization/mutex.h"
#include "fleet/local_cluster.h"
#include "tests/data/test_files.h"
#include "tests/worker/planted_rows.h"
#include "tests/worker/training_job.h"

namespace oarlock::worker {
namespace {

constexpr uint64_t kRows = 2450;
// Parameters that are compared must have been trained.
constexpr float kMoved = .01f;

// Reads rows when they are needed, as late as a client may, so that what a step
// sees does not depend on how fast its thread is.
class LateClient : public LocalParameterClient {
 public:
  LateClient() : LocalParameterClient(64) {}

  void EnqueuePullSparse(TableId table, const client::KeyBatch& keys,
                         float* rows, client::TableVersions* versions,
                         std::shared_ptr<const void> memory,
                         Done done) override {
    absl::MutexLock lock(&mutex_);
    pulls_.push_back(
        {table, &keys, rows, versions, std::move(memory), std::move(done)});
  }
  void Flush(const void* memory) override {
    std::vector<Pull> needed;
    {
      absl::MutexLock lock(&mutex_);
      std::vector<Pull> others;
      for (Pull& pull : pulls_) {
        (pull.memory.get() == memory ? needed : others)
            .push_back(std::move(pull));
      }
      pulls_ = std::move(others);
    }
    for (Pull& pull : needed) {
      PullSparse(pull.table, *pull.keys, pull.rows, pull.versions, pull.memory,
                 std::move(pull.done));
    }
  }

 private:
  struct Pull {
    TableId table;
    const client::KeyBatch* keys;
    float* rows;
    client::TableVersions* versions;
    std::shared_ptr<const void> memory;
    Done done;
  };
  absl::Mutex mutex_;
  std::vector<Pull> pulls_ ABSL_GUARDED_BY(mutex_);
};

class ModesTest : public ::testing::TestWithParam<const char*> {
 protected:
  static void SetUpTestSuite() { folder_ = NewPlantedRows(kRows); }
  static void TearDownTestSuite() { delete folder_; }

  v1::JobConfig Config(const std::string& mode) {
    v1::JobConfig config;
    config.set_model(GetParam());
    config.set_mode(mode);
    config.add_train_files(folder_->Path("part-0"));
    config.set_sparse_feature_dim(5000);
    config.set_embedding_size(4);
    config.set_batch_size(100);
    config.set_optimizer("adagrad");
    config.set_adagrad_initial_accumulator(.1);
    config.set_learning_rate(.05);
    config.set_warmup_steps(0);
    config.set_num_partitions(64);
    config.set_dense_interval_steps(1);
    config.set_epochs(2);
    return config;
  }
  static JobOutcome Train(const v1::JobConfig& config) {
    LateClient client;
    JobOutcome outcome = RunLocalJob(config, &client);
    EXPECT_TRUE(outcome.ok()) << outcome.statuses[0];
    EXPECT_EQ(outcome.summary.examples, 2 * kRows);
    return outcome;
  }
  static void ExpectSameBits(const JobOutcome& a, const JobOutcome& b) {
    EXPECT_TRUE(a.parameters == b.parameters)
        << "off by " << LargestDifference(a.parameters, b.parameters);
  }

  static TestFolder* folder_;
};
TestFolder* ModesTest::folder_ = nullptr;

TEST_P(ModesTest, HalfAsyncWithOneThreadEqualsAsync) {
  const v1::JobConfig config = Config("async");
  const JobOutcome async = Train(config);
  EXPECT_GT(LargestDifference(async.parameters, InitialParameters(config)),
            kMoved);
  ExpectSameBits(async, Train(config));
  ExpectSameBits(Train(Config("half_async")), async);
}

TEST_P(ModesTest, HalfAsyncThreadsOfOneWorkerMakeTheRoundsOfSync) {
  v1::JobConfig config = Config("half_async");
  config.set_thread_num(2);
  config.set_batch_size(50);
  config.set_split("interleaved");
  const JobOutcome half_async = Train(config);
  config.set_mode("sync");
  ExpectSameBits(half_async, Train(config));
}

TEST_P(ModesTest, HalfAsyncThreadsEqualOneOfTheirBatches) {
  for (const char* const loss : {"mean", "sum"}) {
    for (const int threads : {2, 3}) {
      SCOPED_TRACE(absl::StrCat(loss, ", ", threads, " threads"));
      v1::JobConfig config = Config("half_async");
      config.set_loss(loss);
      // Longer steps enlarge rounding: a unit that one of them switches off.
      config.set_learning_rate(.005);
      config.set_thread_num(threads);
      config.set_batch_size(50);
      config.set_split("interleaved");
      const JobOutcome many = Train(config);
      config.set_thread_num(1);
      config.set_batch_size(50 * threads);
      const JobOutcome one = Train(config);
      const float moved =
          LargestDifference(one.parameters, InitialParameters(config));
      EXPECT_GT(moved, kMoved / 10);
      EXPECT_LT(LargestDifference(many.parameters, one.parameters),
                2e-4f * moved);
    }
  }
}

// Threads have unequally many batches; those that have none leave the others.
TEST_P(ModesTest, HalfAsyncThreadsWithoutDataHoldNobody) {
  v1::JobConfig config = Config("half_async");
  config.set_thread_num(7);
  config.set_batch_size(20);
  for (const char* const split : {"leased", "interleaved"}) {
    config.set_split(split);
    Train(config);
  }
}

TEST_P(ModesTest, HalfAsyncThreadsMakeOnePushAStep) {
  v1::JobConfig config = Config("half_async");
  config.set_thread_num(2);
  config.set_batch_size(50);
  config.set_split("interleaved");
  config.set_epochs(1);
  LateClient client;
  const JobOutcome outcome = RunLocalJob(config, &client);
  ASSERT_TRUE(outcome.ok()) << outcome.statuses[0];
  client::TableVersions versions;
  client::KeyBatch keys;
  client.PullSparse(TableId(1), keys, nullptr, &versions, nullptr,
                    [](absl::Status) {});
  EXPECT_EQ(versions[0], (kRows + 99) / 100);
}

TEST_P(ModesTest, SspOfOneThreadEqualsAsyncWhateverTheBound) {
  v1::JobConfig config = Config("async");
  const JobOutcome async = Train(config);
  config.set_mode("ssp");
  for (const int64_t bound : {-1, 0, 1, 1'000'000'000}) {
    SCOPED_TRACE(bound);
    config.set_staleness_bound(bound);
    ExpectSameBits(Train(config), async);
  }
}

// With a lead of 0 a step misses nothing but what the others do in the same
// one.
TEST_P(ModesTest, SspWithoutLeadReadsWhatAllHaveFinished) {
  v1::JobConfig config = Config("ssp");
  config.set_staleness_bound(0);
  config.set_thread_num(2);
  config.set_batch_size(25);
  config.set_lookahead_batches(2);
  config.set_split("interleaved");
  config.set_epochs(1);
  const JobOutcome outcome = RunClusterJob(config, 2, 2);
  ASSERT_TRUE(outcome.ok()) << outcome.statuses[0] << outcome.statuses[1];
  const v1::PhaseProgress& progress = outcome.Phase("train", 0).progress();
  uint64_t steps = 0;
  for (int i = 0; i < progress.staleness_histogram_size(); ++i) {
    steps += progress.staleness_histogram(i);
    // Three other threads.
    if (i > 2) {
      EXPECT_EQ(progress.staleness_histogram(i), 0u) << i;
    }
  }
  EXPECT_EQ(steps, kRows / 25);
}

INSTANTIATE_TEST_SUITE_P(Models, ModesTest, ::testing::Values("lr", "ctr_dnn"));

}  // namespace
}  // namespace oarlock::worker
