// Jobs of which a worker vanishes without a word.

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <atomic>
#include <cstdint>
#include <functional>
#include <string>
#include <thread>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "base/clock.h"
#include "tests/integration/mini_cluster.h"
#include "tests/worker/trainer_testing.h"
#include "worker/trainer.h"

namespace oarlock {
namespace {

using ::testing::HasSubstr;
using ::testing::Not;

class VanishedWorkerTest : public TrainerTest {};

// A job of two whose second worker takes part until `meet` returns and then
// vanishes without a word. The status of the first one, and its summary.
absl::StatusOr<TrainingSummary> RunBesideAVanishingWorker(
    const v1::JobConfig& config, absl::Duration restart_grace,
    const std::function<void(MiniWorker&)>& meet) {
  MiniClusterOptions options;
  options.num_servers = 2;
  options.num_workers = 2;
  options.lease = absl::Milliseconds(500);
  options.restart_grace = restart_grace;
  const auto cluster = MiniCluster::Start(options);
  if (!cluster.ok()) return cluster.status();
  std::thread vanishing([&] {
    auto worker = MiniWorker::Join(**cluster, 1);
    ASSERT_TRUE(worker.ok()) << worker.status();
    meet(**worker);
  });
  auto worker = MiniWorker::Join(**cluster, 0);
  if (!worker.ok()) {
    vanishing.join();
    return worker.status();
  }
  auto trainer = Trainer::Create(config, &(*worker)->parameters(),
                                 &(*worker)->job());
  absl::StatusOr<TrainingSummary> summary =
      trainer.ok() ? (*trainer)->Run()
                   : absl::StatusOr<TrainingSummary>(trainer.status());
  vanishing.join();
  return summary;
}

void MeetAt(MiniWorker& worker, const std::vector<std::string>& barriers) {
  for (const std::string& barrier : barriers) {
    const absl::Status status = worker.job().Barrier(barrier);
    ASSERT_TRUE(status.ok()) << status;
  }
}

TEST_F(VanishedWorkerTest, VanishedWorkerEndsTheJobWhenNobodyReplacesIt) {
  for (const char* mode : {"async", "sync"}) {
    SCOPED_TRACE(mode);
    v1::JobConfig config = Config();
    config.set_mode(mode);
    // Longer than the lease and the grace.
    config.set_epochs(1'000'000);
    const absl::Time start = Clock::Real().Now();
    const absl::StatusOr<TrainingSummary> summary = RunBesideAVanishingWorker(
        config, absl::Milliseconds(300),
        [](MiniWorker& worker) { MeetAt(worker, {"tables", "train/0"}); });
    EXPECT_LT(Clock::Real().Now() - start, absl::Seconds(15));
    ASSERT_FALSE(summary.ok());
    EXPECT_THAT(std::string(summary.status().message()),
                HasSubstr("worker 1"));
    EXPECT_THAT(std::string(summary.status().message()),
                Not(HasSubstr("\n")));
  }
}

TEST_F(VanishedWorkerTest, RangesOfAVanishedWorkerAreTrainedByTheOthers) {
  v1::JobConfig config = Config();
  std::atomic<uint64_t> taken = 0;
  const absl::StatusOr<TrainingSummary> summary = RunBesideAVanishingWorker(
      config, absl::Minutes(10), [&](MiniWorker& worker) {
        MeetAt(worker, {"tables", "train/0", "train/0/defined"});
        const absl::StatusOr<Leases> leases =
            worker.job().LeaseWork("train/0", 1, {});
        ASSERT_TRUE(leases.ok()) << leases.status();
        for (const WorkItem& item : leases->items) {
          taken += item.end - item.begin;
        }
      });
  ASSERT_TRUE(summary.ok()) << summary.status();
  EXPECT_GT(taken, 0u);
  EXPECT_EQ(summary->examples, kRows);
}

TEST_F(VanishedWorkerTest, VanishedWorkerIsNotTheSlowestForEver) {
  v1::JobConfig config = Config();
  config.set_mode("ssp");
  config.set_staleness_bound(0);
  const absl::StatusOr<TrainingSummary> summary = RunBesideAVanishingWorker(
      config, absl::Minutes(10), [](MiniWorker& worker) {
        MeetAt(worker, {"tables", "train/0", "train/0/defined"});
        ASSERT_TRUE(worker.job().JoinSteps().ok());
        MeetAt(worker, {"train/0/steps"});
      });
  ASSERT_TRUE(summary.ok()) << summary.status();
  EXPECT_EQ(summary->examples, kRows);
}

TEST_F(VanishedWorkerTest, RoundsGoOnWithoutAVanishedWorker) {
  v1::JobConfig config = SyncConfig();
  const absl::StatusOr<TrainingSummary> summary = RunBesideAVanishingWorker(
      config, absl::Minutes(10), [](MiniWorker& worker) {
        MeetAt(worker, {"tables", "train/0"});
        ASSERT_TRUE(worker.job().JoinRounds().ok());
        MeetAt(worker, {"train/0/rounds"});
      });
  ASSERT_TRUE(summary.ok()) << summary.status();
  // Its share of the static split is nobody else's.
  EXPECT_EQ(summary->examples, 1250u);
}

}  // namespace
}  // namespace oarlock
