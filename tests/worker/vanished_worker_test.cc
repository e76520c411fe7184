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
#include "tests/base/skippable_clock.h"
#include "tests/integration/mini_cluster.h"
#include "tests/worker/skipped_leases.h"
#include "tests/worker/trainer_testing.h"
#include "worker/trainer.h"

namespace oarlock::worker {
namespace {

using ::testing::HasSubstr;
using ::testing::Not;

class VanishedWorkerTest : public TrainerTest {};

constexpr absl::Duration kLease = absl::Seconds(20);
// What goes on when nobody takes a lost worker's place.
constexpr absl::Duration kGrace = absl::Seconds(30);

MiniClusterOptions OptionsOf(const Clock& clock) {
  MiniClusterOptions options;
  options.num_servers = 2;
  options.num_workers = 2;
  options.lease = kLease;
  options.restart_grace = kGrace;
  options.server_clocks = {.wall = &clock, .monotonic = &clock};
  return options;
}

// A job of two whose second worker takes part until `take_part` returns and
// then vanishes without a word: its lease runs out and, where the job is to
// `end` by that, its grace. The status of the first one, and its summary.
absl::StatusOr<TrainingSummary> RunBesideAVanishingWorker(
    const v1::JobConfig& config, bool end,
    const std::function<void(MiniWorker&)>& take_part) {
  SkippableClock clock;
  const MiniClusterOptions options = OptionsOf(clock);
  const auto cluster = MiniCluster::Start(options);
  if (!cluster.ok()) return cluster.status();
  std::thread vanishing([&] {
    auto worker = MiniWorker::Join(**cluster, 1);
    ASSERT_TRUE(worker.ok()) << worker.status();
    take_part(**worker);
  });
  auto worker = MiniWorker::Join(**cluster, 0);
  if (!worker.ok()) {
    vanishing.join();
    return worker.status();
  }
  auto trainer =
      Trainer::Create(config, &(*worker)->parameters(), &(*worker)->job());
  if (!trainer.ok()) {
    vanishing.join();
    return trainer.status();
  }
  std::atomic<bool> over = false;
  absl::StatusOr<TrainingSummary> summary;
  std::thread training([&] {
    summary = (*trainer)->Run();
    over = true;
  });
  vanishing.join();
  client::JobClient& job = (*worker)->job();
  EXPECT_TRUE(SkipUntilLost(**cluster, &clock, kLease, job, 1));
  if (end) {
    EXPECT_TRUE(
        SkipUntil(**cluster, &clock, kLease, job, [&] { return over.load(); }));
  }
  training.join();
  return summary;
}

void WaitAtBarriers(MiniWorker& worker,
                    const std::vector<std::string>& barriers) {
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
    // It does not end by itself.
    config.set_epochs(1'000'000);
    const absl::StatusOr<TrainingSummary> summary =
        RunBesideAVanishingWorker(config, /*end=*/true, [](MiniWorker& worker) {
          WaitAtBarriers(worker, {"tables", "train/0"});
        });
    ASSERT_FALSE(summary.ok());
    EXPECT_THAT(std::string(summary.status().message()), HasSubstr("worker 1"));
    EXPECT_THAT(std::string(summary.status().message()), Not(HasSubstr("\n")));
  }
}

TEST_F(VanishedWorkerTest, RangesOfAVanishedWorkerAreTrainedByTheOthers) {
  v1::JobConfig config = Config();
  std::atomic<uint64_t> taken = 0;
  const absl::StatusOr<TrainingSummary> summary =
      RunBesideAVanishingWorker(config, /*end=*/false, [&](MiniWorker& worker) {
        WaitAtBarriers(worker, {"tables", "train/0", "train/0/defined"});
        const absl::StatusOr<client::Leases> leases =
            worker.job().LeaseRanges("train/0", 1, {});
        ASSERT_TRUE(leases.ok()) << leases.status();
        for (const data::DataRange& item : leases->items) {
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
  const absl::StatusOr<TrainingSummary> summary =
      RunBesideAVanishingWorker(config, /*end=*/false, [](MiniWorker& worker) {
        WaitAtBarriers(worker, {"tables", "train/0", "train/0/defined"});
        ASSERT_TRUE(worker.job().JoinSteps().ok());
        WaitAtBarriers(worker, {"train/0/members"});
      });
  ASSERT_TRUE(summary.ok()) << summary.status();
  EXPECT_EQ(summary->examples, kRows);
}

TEST_F(VanishedWorkerTest, RoundsGoOnWithoutAVanishedWorker) {
  v1::JobConfig config = SyncConfig();
  const absl::StatusOr<TrainingSummary> summary =
      RunBesideAVanishingWorker(config, /*end=*/false, [](MiniWorker& worker) {
        WaitAtBarriers(worker, {"tables", "train/0"});
        ASSERT_TRUE(worker.job().JoinRounds().ok());
        WaitAtBarriers(worker, {"train/0/members"});
      });
  ASSERT_TRUE(summary.ok()) << summary.status();
  // Its share of the static split is nobody else's.
  EXPECT_EQ(summary->examples, 1250u);
}

// The lease of worker 1 runs out; its successor begins with epoch 0 while
// worker 0 is already a member of epoch 1, and waits for the other members.
void RunASuccessorThatComesLate(
    v1::JobConfig config, const std::function<absl::Status(MiniWorker&)>& join,
    const std::function<absl::Status(MiniWorker&)>& leave) {
  config.set_epochs(2);
  config.set_split("interleaved");
  SkippableClock clock;
  const auto cluster = MiniCluster::Start(OptionsOf(clock));
  ASSERT_TRUE(cluster.ok()) << cluster.status();
  auto worker = MiniWorker::Join(**cluster, 0);
  ASSERT_TRUE(worker.ok()) << worker.status();
  ASSERT_TRUE(MiniWorker::Join(**cluster, 1).ok());
  ASSERT_TRUE(SkipUntilLost(**cluster, &clock, kLease, (*worker)->job(), 1));
  WaitAtBarriers(**worker, {"tables", "train/0", "train/0/members"});
  ASSERT_TRUE((*worker)->job().WaitForTrained(0).ok());
  WaitAtBarriers(**worker, {"train/1"});
  ASSERT_TRUE(join(**worker).ok());

  auto successor = MiniWorker::Join(**cluster, 1);
  ASSERT_TRUE(successor.ok()) << successor.status();
  auto trainer = Trainer::Create(config, &(*successor)->parameters(),
                                 &(*successor)->job());
  ASSERT_TRUE(trainer.ok()) << trainer.status();
  absl::StatusOr<TrainingSummary> summary;
  std::thread training([&] { summary = (*trainer)->Run(); });
  WaitAtBarriers(**worker, {"train/1/members"});
  EXPECT_TRUE(leave(**worker).ok());
  EXPECT_TRUE((*worker)->job().WaitForTrained(1).ok());
  WaitAtBarriers(**worker, {"summary"});
  training.join();
  ASSERT_TRUE(summary.ok()) << summary.status();
}

TEST_F(VanishedWorkerTest, RoundsGoOnWhenASuccessorIsAnEpochBehind) {
  RunASuccessorThatComesLate(
      SyncConfig(),
      [](MiniWorker& worker) { return worker.job().JoinRounds().status(); },
      [](MiniWorker& worker) { return worker.job().LeaveRounds(); });
}

TEST_F(VanishedWorkerTest, StepsGoOnWhenASuccessorIsAnEpochBehind) {
  v1::JobConfig config = Config();
  config.set_mode("ssp");
  config.set_staleness_bound(0);
  RunASuccessorThatComesLate(
      config,
      [](MiniWorker& worker) { return worker.job().JoinSteps().status(); },
      [](MiniWorker& worker) { return worker.job().LeaveSteps(); });
}

}  // namespace
}  // namespace oarlock::worker
