// What every JobClient does: that of servers, that of a local run, and the fake
// of the worker's tests.

#include <gtest/gtest.h>

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "client/job_client.h"
#include "fleet/local_cluster.h"
#include "tests/integration/mini_cluster.h"
#include "tests/worker/fake_job_client.h"

namespace oarlock::client {
namespace {

constexpr uint64_t kRangeExamples = 100;

// A client with what it needs around it.
class Subject {
 public:
  virtual ~Subject() = default;
  virtual JobClient& client() = 0;
};

class OfServers : public Subject {
 public:
  OfServers() {
    MiniClusterOptions options;
    options.num_servers = 2;
    auto cluster = MiniCluster::Start(options);
    EXPECT_TRUE(cluster.ok()) << cluster.status();
    cluster_ = *std::move(cluster);
    auto worker = MiniWorker::Join(*cluster_, 0);
    EXPECT_TRUE(worker.ok()) << worker.status();
    worker_ = *std::move(worker);
  }
  JobClient& client() override { return worker_->job(); }

 private:
  std::unique_ptr<MiniCluster> cluster_;
  std::unique_ptr<MiniWorker> worker_;
};

template <typename Client>
class Alone : public Subject {
 public:
  JobClient& client() override { return client_; }

 private:
  Client client_;
};

struct Implementation {
  std::string name;
  std::function<std::unique_ptr<Subject>()> make;
};

std::string NameOf(const ::testing::TestParamInfo<Implementation>& info) {
  return info.param.name;
}

Implementation Servers() {
  return {"Servers", [] { return std::make_unique<OfServers>(); }};
}
Implementation LocalRun() {
  return {"LocalRun", [] { return std::make_unique<Alone<LocalJobClient>>(); }};
}
Implementation Fake() {
  return {"Fake",
          [] { return std::make_unique<Alone<worker::FakeJobClient>>(); }};
}

std::vector<data::DataRange> RangesOf(uint64_t count) {
  std::vector<data::DataRange> ranges(count);
  for (uint64_t i = 0; i < count; ++i) {
    ranges[i].source = static_cast<uint32_t>(i % 3);
    ranges[i].begin = i * kRangeExamples;
    ranges[i].end = (i + 1) * kRangeExamples;
    ranges[i].byte_offset = i * 7000;
  }
  return ranges;
}

class JobClientConformanceTest
    : public ::testing::TestWithParam<Implementation> {
 protected:
  JobClient& client() { return subject_->client(); }

  void Define(const std::string& phase_name, uint64_t num_ranges) {
    const auto defined =
        client().DefinePhase(phase_name, RangesOf(num_ranges),
                             num_ranges * kRangeExamples, /*order=*/"");
    ASSERT_TRUE(defined.ok()) << defined.status();
  }
  // The first examples of all ranges, in the order in which they were leased,
  // at most `max_items` at a time.
  std::vector<uint64_t> LeaseAll(const std::string& phase_name,
                                 uint32_t max_items) {
    std::vector<uint64_t> begins, done;
    for (int call = 0; call < 100; ++call) {
      const absl::StatusOr<Leases> leases =
          client().LeaseRanges(phase_name, max_items, done);
      EXPECT_TRUE(leases.ok()) << leases.status();
      if (!leases.ok()) return begins;
      EXPECT_LE(leases->items.size(), max_items);
      done.clear();
      for (const data::DataRange& range : leases->items) {
        begins.push_back(range.begin);
        EXPECT_EQ(range.end, range.begin + kRangeExamples);
        EXPECT_EQ(range.source, range.begin / kRangeExamples % 3);
        EXPECT_EQ(range.byte_offset, range.begin / kRangeExamples * 7000);
        done.push_back(range.lease);
      }
      if (leases->exhausted) return begins;
    }
    ADD_FAILURE() << "the phase is not exhausted after 100 calls";
    return begins;
  }

  std::unique_ptr<Subject> subject_ = GetParam().make();
};

// With a coordinator's state behind it, which the fake does not have.
class CoordinatedJobClientTest : public JobClientConformanceTest {};

TEST_P(JobClientConformanceTest, TheOnlyWorkerOfAJobIsTheFirst) {
  EXPECT_EQ(client().worker_index(), WorkerIndex(0));
  EXPECT_EQ(client().num_workers(), 1u);
  EXPECT_EQ(client().trained_epochs(), 0u);
  EXPECT_EQ(client().own_trained_epochs(), 0u);
  EXPECT_FALSE(client().training_stopped());
}

TEST_P(JobClientConformanceTest, EveryRangeIsLeasedOnceInItsOrder) {
  for (const uint32_t max_items : {1u, 3u, 20u}) {
    const std::string phase_name = absl::StrCat("train/", max_items);
    Define(phase_name, 7);
    EXPECT_EQ(LeaseAll(phase_name, max_items),
              (std::vector<uint64_t>{0, 100, 200, 300, 400, 500, 600}));
  }
}

TEST_P(JobClientConformanceTest, APhaseThatIsDefinedAgainIsTheSame) {
  Define("train/0", 4);
  Define("train/0", 4);
  EXPECT_EQ(LeaseAll("train/0", 2), (std::vector<uint64_t>{0, 100, 200, 300}));
  Define("train/0", 4);
  EXPECT_TRUE(LeaseAll("train/0", 2).empty());
}

TEST_P(JobClientConformanceTest, AWorkerAloneWaitsAtNoBarrier) {
  EXPECT_TRUE(client().Barrier("start").ok());
  EXPECT_TRUE(client().WaitForTrained(0).ok());
  EXPECT_TRUE(client().WaitForTrained(1).ok());
}

TEST_P(JobClientConformanceTest, AWorkerAloneIsTheSlowest) {
  const absl::StatusOr<uint64_t> begun = client().JoinSteps();
  ASSERT_TRUE(begun.ok()) << begun.status();
  EXPECT_EQ(*begun, 0u);
  const absl::StatusOr<uint64_t> all = client().ReportSteps(5, 5);
  ASSERT_TRUE(all.ok()) << all.status();
  EXPECT_GE(*all, 5u);
  EXPECT_TRUE(client().LeaveSteps().ok());
}

TEST_P(JobClientConformanceTest, RoundsBeginWithNoneThatIsComplete) {
  const absl::StatusOr<uint64_t> complete = client().JoinRounds();
  ASSERT_TRUE(complete.ok()) << complete.status();
  EXPECT_EQ(*complete, 0u);
  EXPECT_TRUE(client().LeaveRounds().ok());
}

TEST_P(JobClientConformanceTest, AJobWithoutAFolderMakesNoCheckpoint) {
  EXPECT_FALSE(client().takes_cuts());
  EXPECT_EQ(client().Checkpoint().code(),
            absl::StatusCode::kFailedPrecondition);
  EXPECT_EQ(client().CheckpointBest().status().code(),
            absl::StatusCode::kFailedPrecondition);
}

TEST_P(JobClientConformanceTest, AWorkerLivesUntilItFinishes) {
  EXPECT_TRUE(client().Alive().ok());
  EXPECT_TRUE(client().Report().ok());
  EXPECT_TRUE(client().Finish(absl::OkStatus()).ok());
}

TEST_P(CoordinatedJobClientTest, AReportIsInTheStatusThatFollows) {
  client().SetProgressSource([given = false]() mutable {
    std::vector<v1::PhaseProgress> reports;
    if (!std::exchange(given, true)) {
      reports.emplace_back();
      reports[0].set_phase("train");
      reports[0].set_examples(300);
    }
    return reports;
  });
  ASSERT_TRUE(client().Report().ok());
  const absl::StatusOr<v1::JobStatusResponse> status = client().GetJobStatus();
  ASSERT_TRUE(status.ok()) << status.status();
  ASSERT_EQ(status->phases_size(), 1);
  EXPECT_EQ(status->phases(0).progress().examples(), 300u);
}

TEST_P(CoordinatedJobClientTest, NoEpochBeginsAfterTrainingIsStopped) {
  const absl::StatusOr<bool> first = client().BeginEpoch(0);
  ASSERT_TRUE(first.ok()) << first.status();
  EXPECT_TRUE(*first);
  ASSERT_TRUE(client().StopTraining("a test asked for it").ok());
  EXPECT_TRUE(client().training_stopped());
  const absl::StatusOr<bool> second = client().BeginEpoch(1);
  ASSERT_TRUE(second.ok()) << second.status();
  EXPECT_FALSE(*second);
  const absl::StatusOr<v1::JobStatusResponse> status = client().GetJobStatus();
  ASSERT_TRUE(status.ok()) << status.status();
  EXPECT_EQ(status->stop_reason(), "a test asked for it");
}

TEST_P(CoordinatedJobClientTest, EvaluationsAndFilesAreKept) {
  v1::Evaluation evaluation;
  evaluation.set_work("test/0");
  evaluation.set_examples(1000);
  evaluation.set_auc(.75);
  ASSERT_TRUE(client().ReportEvaluation(evaluation).ok());
  const absl::StatusOr<v1::JobStatusResponse> status = client().GetJobStatus();
  ASSERT_TRUE(status.ok()) << status.status();
  ASSERT_EQ(status->evaluations_size(), 1);
  EXPECT_EQ(status->evaluations(0).auc(), .75);

  v1::TrainingFile file;
  file.set_epoch(0);
  file.set_file("part-0");
  ASSERT_TRUE(client().RecordFile(file).ok());
  const absl::StatusOr<v1::ListFilesResponse> files = client().ListFiles(0);
  ASSERT_TRUE(files.ok()) << files.status();
  ASSERT_EQ(files->files_size(), 1);
  EXPECT_EQ(files->files(0).file(), "part-0");
}

TEST_P(CoordinatedJobClientTest, FeaturesAndInputs) {
  v1::FeatureList features;
  v1::Feature& user = *features.add_features();
  user.set_name("user");
  user.mutable_sparse()->set_type(v1::INTEGER);
  const auto numbered = client().DefineFeatures(features);
  ASSERT_TRUE(numbered.ok()) << numbered.status();
  EXPECT_EQ(numbered->features(0).sparse().number(), 1u);

  EXPECT_TRUE(absl::IsNotFound(client().GetInput("train").status()));
  // Of two parts and more.
  std::vector<v1::ListedFile> files(30);
  for (size_t i = 0; i < files.size(); ++i) {
    files[i].set_path(std::string(100000, 'x') + absl::StrCat(i));
    files[i].add_group_rows(i + 1);
  }
  ASSERT_TRUE(client().DefineInput("train", files).ok());
  const auto input = client().GetInput("train");
  ASSERT_TRUE(input.ok()) << input.status();
  ASSERT_EQ(input->files.size(), files.size());
  for (size_t i = 0; i < files.size(); ++i) {
    EXPECT_EQ(input->files[i].path(), files[i].path());
    EXPECT_EQ(input->files[i].group_rows(0), i + 1);
  }
  EXPECT_EQ(input->features.features(0).sparse().number(), 1u);
}

INSTANTIATE_TEST_SUITE_P(Clients, JobClientConformanceTest,
                         ::testing::Values(Servers(), LocalRun(), Fake()),
                         NameOf);
INSTANTIATE_TEST_SUITE_P(Clients, CoordinatedJobClientTest,
                         ::testing::Values(Servers(), LocalRun()), NameOf);

}  // namespace
}  // namespace oarlock::client
