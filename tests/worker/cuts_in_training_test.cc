// Cuts through real epochs, and jobs that go on from one.

#include <gtest/gtest.h>

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/synchronization/mutex.h"
#include "data/synthetic/criteo_generator.h"
#include "fleet/local_cluster.h"
#include "tests/client/blocking_calls.h"
#include "tests/data/test_files.h"
#include "tests/worker/cut_oracle.h"
#include "worker/trainer.h"

namespace oarlock::worker {
namespace {

constexpr uint64_t kRows = 2450;
constexpr uint64_t kBatch = 50;

// Tables in this process that hold pushes as servers do while a cut is open.
class HoldingClient : public LocalParameterClient {
 public:
  explicit HoldingClient(CutOracle* oracle)
      : LocalParameterClient(64), oracle_(oracle) {}

  // Steps are summed, as where exchanges cost something.
  bool in_process() const override { return false; }
  void SetCutObserver(CutObserver observer) override {
    absl::MutexLock lock(&observer_mutex_);
    observer_ = std::move(observer);
  }
  void Push(const client::PushRequest& push, client::TableVersions* versions,
            std::shared_ptr<const void> memory, Done done) override {
    {
      absl::MutexLock lock(&mutex_);
      if (oracle_->Arrives(push)) {
        held_.push_back({push, versions, std::move(memory), std::move(done)});
        return Tell();
      }
    }
    Apply({push, versions, std::move(memory), std::move(done)});
    Tell();
  }
  void ReleaseHeld() {
    std::vector<Held> held;
    {
      absl::MutexLock lock(&mutex_);
      held.swap(held_);
    }
    for (Held& push : held) Apply(std::move(push));
  }

 private:
  struct Held {
    client::PushRequest push;
    client::TableVersions* versions;
    std::shared_ptr<const void> memory;
    Done done;
  };

  void Apply(Held held) {
    LocalParameterClient::Push(
        held.push, held.versions, held.memory,
        [this, push = held.push,
         done = std::move(held.done)](absl::Status status) mutable {
          oracle_->Applied(push);
          done(std::move(status));
        });
  }
  void Tell() {
    absl::MutexLock lock(&observer_mutex_);
    if (observer_) observer_(oracle_->newest());
  }

  CutOracle* const oracle_;
  absl::Mutex mutex_;
  std::vector<Held> held_ ABSL_GUARDED_BY(mutex_);
  absl::Mutex observer_mutex_;
  CutObserver observer_ ABSL_GUARDED_BY(observer_mutex_);
};

class CuttingJob : public LocalJobClient {
 public:
  CuttingJob(CutOracle* oracle, HoldingClient* servers)
      : oracle_(oracle), servers_(servers) {}
  bool takes_cuts() const override { return true; }
  absl::Status MarkCut(
      uint64_t cut, const std::vector<v1::TrainedExamples>& trained) override {
    oracle_->Marked(cut, trained);
    servers_->ReleaseHeld();
    return absl::OkStatus();
  }

 private:
  CutOracle* const oracle_;
  HoldingClient* const servers_;
};

// A job that goes on from somewhere.
class ResumedJob : public LocalJobClient {
 public:
  ResumedJob(uint32_t trained_epochs, std::vector<data::ExampleRange> covered)
      : trained_epochs_(trained_epochs) {
    for (const data::ExampleRange& range : covered) covered_.Add(range);
  }
  uint32_t trained_epochs() const override { return trained_epochs_; }
  absl::StatusOr<data::ExampleIntervals> DefinePhase(
      const std::string& phase_name, const std::vector<data::DataRange>& items,
      uint64_t num_examples, const std::string& order) override {
    const auto defined =
        LocalJobClient::DefinePhase(phase_name, items, num_examples, order);
    if (!defined.ok()) return defined.status();
    return covered_;
  }

 private:
  const uint32_t trained_epochs_;
  data::ExampleIntervals covered_;
};

// What the successor of a worker sees that met the others after some epochs, in
// a run that began with the first of them.
class SuccessorsJob : public ResumedJob {
 public:
  SuccessorsJob(uint32_t trained_epochs, uint32_t own_trained_epochs)
      : ResumedJob(trained_epochs, {}),
        own_trained_epochs_(own_trained_epochs) {}
  uint32_t own_trained_epochs() const override { return own_trained_epochs_; }
  absl::Status Barrier(const std::string& name) override {
    barriers.push_back(name);
    return LocalJobClient::Barrier(name);
  }

  std::vector<std::string> barriers;

 private:
  const uint32_t own_trained_epochs_;
};

class CutsInTrainingTest : public ::testing::Test {
 protected:
  void SetUp() override {
    data::GeneratorOptions options;
    options.rows = kRows;
    options.files = 1;
    options.seed = 7;
    options.out_dir = folder_.path();
    const auto report = data::GenerateCriteo(options);
    ASSERT_TRUE(report.ok()) << report.status();
  }

  v1::JobConfig Config(const std::string& mode) {
    v1::JobConfig config;
    config.set_model("deepfm");
    config.set_mode(mode);
    config.add_train_files(folder_.Path("part-0"));
    config.set_sparse_feature_dim(5000);
    config.set_embedding_size(4);
    config.set_batch_size(kBatch);
    config.set_learning_rate(.05);
    config.set_num_partitions(64);
    return config;
  }
  v1::JobConfig ConfigOfEpochs(int epochs) {
    v1::JobConfig config = Config("async");
    config.set_epochs(epochs);
    config.add_test_files(folder_.Path("part-0"));
    return config;
  }
  static absl::Status Train(const v1::JobConfig& config,
                            client::ParameterClient* parameters,
                            client::JobClient* job) {
    const auto trainer = Trainer::Create(config, parameters, job);
    if (!trainer.ok()) return trainer.status();
    return (*trainer)->Run().status();
  }
  // The dense parameters: every row has a part in them.
  static std::vector<float> Dense(LocalParameterClient& client) {
    for (uint32_t id = 1; id < 10; ++id) {
      const auto entry = client.tables().Find(TableId(id));
      if (!entry.ok() || (*entry)->dense == nullptr) continue;
      client::DenseReplica replica;
      EXPECT_TRUE(client::PullAll(client, TableId(id), &replica).ok());
      return replica.values;
    }
    ADD_FAILURE() << "the model has no dense table";
    return {};
  }
  // Examples that were trained in the epoch.
  static uint64_t Trained(client::JobClient& job, const std::string& phase,
                          uint32_t epoch) {
    const auto status = job.GetJobStatus();
    EXPECT_TRUE(status.ok()) << status.status();
    for (const v1::PhaseStatus& counted : status->phases()) {
      if (counted.progress().phase() == phase &&
          counted.progress().epoch() == epoch) {
        return counted.progress().examples();
      }
    }
    return 0;
  }

  TestFolder folder_;
};

TEST_F(CutsInTrainingTest, ExamplesRowsAndDenseGradientsAreOnOneSide) {
  for (const char* const mode : {"async", "half_async", "ssp"}) {
    // Fewer permits than compute threads: held pushes take all of them.
    for (const int permits : {1, 4}) {
      SCOPED_TRACE(absl::StrCat(mode, ", ", permits, " permits"));
      v1::JobConfig config = Config(mode);
      config.set_epochs(2);
      config.set_thread_num(3);
      config.set_max_unacknowledged_pushes(permits);
      config.set_dense_interval_steps(3);
      config.set_staleness_bound(1);
      config.add_test_files(folder_.Path("part-0"));
      CutOracle oracle(/*pushes_per_cut=*/7);
      HoldingClient servers(&oracle);
      CuttingJob job(&oracle, &servers);
      const absl::Status status = Train(config, &servers, &job);
      ASSERT_TRUE(status.ok()) << status;
      // Compute threads that push together make fewer pushes.
      EXPECT_GE(oracle.num_marks(),
                std::string(mode) == "half_async" ? 2u : 5u);
      EXPECT_EQ(oracle.num_seen(), 2 * kRows);
      EXPECT_EQ(oracle.num_reported(), 2 * kRows);
    }
  }
}

TEST_F(CutsInTrainingTest, GeoExchangesAreOnOneSide) {
  v1::JobConfig config = Config("geo");
  config.set_epochs(2);
  // The oracle takes a push of rows for a step.
  config.set_geo_steps(1);
  config.add_test_files(folder_.Path("part-0"));
  // A push has several steps, of which its dense part knows the number alone;
  // the examples of both parts are compared all the same.
  CutOracle oracle(/*pushes_per_cut=*/7, /*has_dense_table=*/false);
  HoldingClient servers(&oracle);
  CuttingJob job(&oracle, &servers);
  const absl::Status status = Train(config, &servers, &job);
  ASSERT_TRUE(status.ok()) << status;
  EXPECT_GE(oracle.num_marks(), 5u);
  EXPECT_EQ(oracle.num_seen(), 2 * kRows);
  EXPECT_EQ(oracle.num_reported(), 2 * kRows);
}

TEST_F(CutsInTrainingTest, SyncEpochThatGoesOnIsTheSameEpoch) {
  const v1::JobConfig config = Config("sync");
  LocalParameterClient undisturbed(64);
  LocalJobClient job;
  ASSERT_TRUE(Train(config, &undisturbed, &job).ok());
  constexpr uint64_t kFirstRounds = 20 * kBatch;
  LocalParameterClient resumed(64);
  ResumedJob first(0, {{0, kFirstRounds, kRows}});
  ASSERT_TRUE(Train(config, &resumed, &first).ok());
  EXPECT_NE(Dense(resumed), Dense(undisturbed));
  ResumedJob second(0, {{0, 0, kFirstRounds}});
  ASSERT_TRUE(Train(config, &resumed, &second).ok());
  EXPECT_EQ(Trained(first, "train", 0), kFirstRounds);
  EXPECT_EQ(Trained(second, "train", 0), kRows - kFirstRounds);
  EXPECT_EQ(Dense(resumed), Dense(undisturbed));
}

TEST_F(CutsInTrainingTest, EpochsThatAreOverAreNotRunAgain) {
  const v1::JobConfig config = ConfigOfEpochs(3);
  LocalParameterClient parameters(64);
  ResumedJob job(/*trained_epochs=*/2, {});
  v1::Evaluation evaluation;
  evaluation.set_work("test/1");
  ASSERT_TRUE(job.ReportEvaluation(evaluation).ok());
  ASSERT_TRUE(Train(config, &parameters, &job).ok());
  for (const std::string phase : {"train", "test"}) {
    EXPECT_EQ(Trained(job, phase, 0), 0u);
    EXPECT_EQ(Trained(job, phase, 1), 0u);
    EXPECT_EQ(Trained(job, phase, 2), kRows);
  }
}

TEST_F(CutsInTrainingTest, EvaluationThatIsMissingIsMadeBeforeTheNextEpoch) {
  const v1::JobConfig config = ConfigOfEpochs(3);
  LocalParameterClient parameters(64);
  ResumedJob job(/*trained_epochs=*/2, {});
  ASSERT_TRUE(Train(config, &parameters, &job).ok());
  EXPECT_EQ(Trained(job, "train", 1), 0u);
  EXPECT_EQ(Trained(job, "test", 0), 0u);
  EXPECT_EQ(Trained(job, "test", 1), kRows);
  EXPECT_EQ(Trained(job, "test", 2), kRows);
}

TEST_F(CutsInTrainingTest, JobThatWasWhollyTrainedIsEvaluatedOnce) {
  const v1::JobConfig config = ConfigOfEpochs(2);
  LocalParameterClient parameters(64);
  ResumedJob job(/*trained_epochs=*/2, {});
  ASSERT_TRUE(Train(config, &parameters, &job).ok());
  EXPECT_EQ(Trained(job, "train", 1), 0u);
  EXPECT_EQ(Trained(job, "test", 0), 0u);
  EXPECT_EQ(Trained(job, "test", 1), kRows);
}

TEST_F(CutsInTrainingTest, SuccessorMeetsTheOthersWhereverTheyAre) {
  const v1::JobConfig config = ConfigOfEpochs(4);
  LocalParameterClient parameters(64);
  SuccessorsJob job(/*trained_epochs=*/1, /*own_trained_epochs=*/3);
  for (const char* const phase_name : {"test/0", "test/2"}) {
    v1::Evaluation evaluation;
    evaluation.set_work(phase_name);
    ASSERT_TRUE(job.ReportEvaluation(evaluation).ok());
  }
  ASSERT_TRUE(Train(config, &parameters, &job).ok());
  for (const int epoch : {0, 1, 2}) {
    EXPECT_EQ(Trained(job, "train", epoch), 0u) << epoch;
  }
  EXPECT_EQ(Trained(job, "train", 3), kRows);
  EXPECT_EQ(Trained(job, "test", 0), 0u);
  ASSERT_GT(job.barriers.size(), 10u);
  job.barriers.resize(10);
  EXPECT_EQ(
      job.barriers,
      (std::vector<std::string>{
          "tables", "train/1/trained", "test/1/defined", "test/1/predicted",
          "test/1/concluded", "train/2/trained", "test/2/defined",
          "test/2/predicted", "test/2/concluded", "train/3"}));
}

}  // namespace
}  // namespace oarlock::worker
