#include "worker/epoch/step_gate.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <thread>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/synchronization/mutex.h"
#include "base/clock.h"
#include "fleet/local_cluster.h"
#include "tests/base/skippable_clock.h"
#include "tests/integration/mini_cluster.h"
#include "tests/worker/skipped_leases.h"

namespace oarlock::worker {
namespace {

constexpr absl::Duration kDeadline = absl::Minutes(1);
constexpr absl::Duration kLease = absl::Seconds(20);

// What every compute thread of a job has finished, by the test's own count, and
// how far ahead of the slowest any step has begun.
class Lead {
 public:
  explicit Lead(size_t num_compute_threads)
      : finished_(num_compute_threads, 0), counts_(num_compute_threads, true) {}

  void Begins(uint64_t step) {
    absl::MutexLock lock(&mutex_);
    for (size_t i = 0; i < finished_.size(); ++i) {
      if (counts_[i] && step > finished_[i]) {
        largest_ = std::max(largest_, step - finished_[i]);
      }
    }
  }
  // Before the gate is told.
  void Finished(size_t thread, uint64_t step) {
    absl::MutexLock lock(&mutex_);
    finished_[thread] = step + 1;
  }
  // Before the gate is told, or the compute thread dies.
  void Gone(size_t thread) {
    absl::MutexLock lock(&mutex_);
    counts_[thread] = false;
  }
  uint64_t largest() const {
    absl::MutexLock lock(&mutex_);
    return largest_;
  }
  bool AwaitFinished(size_t thread, uint64_t steps) {
    absl::MutexLock lock(&mutex_);
    const auto reached = [&]() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_) {
      return finished_[thread] >= steps;
    };
    return mutex_.AwaitWithTimeout(absl::Condition(&reached), kDeadline);
  }

 private:
  mutable absl::Mutex mutex_;
  std::vector<uint64_t> finished_ ABSL_GUARDED_BY(mutex_);
  std::vector<bool> counts_ ABSL_GUARDED_BY(mutex_);
  uint64_t largest_ ABSL_GUARDED_BY(mutex_) = 0;
};

// Makes `steps` steps; the compute thread's number is `thread` here and
// `global` in `lead`.
absl::Status RunThread(StepGate* gate, size_t thread, Lead* lead, size_t global,
                       uint64_t steps) {
  for (uint64_t i = 0; i < steps; ++i) {
    const absl::StatusOr<uint64_t> step = gate->Begin(thread);
    if (!step.ok()) return step.status();
    lead->Begins(*step);
    lead->Finished(global, *step);
    gate->Finished(thread, *step);
  }
  lead->Gone(global);
  gate->LeaveThread(thread);
  return absl::OkStatus();
}

TEST(StepGateTest, ThreadsOfOneWorkerWaitForEachOther) {
  for (const uint64_t bound : {0, 1, 5}) {
    SCOPED_TRACE(absl::StrCat("bound ", bound));
    const FakeClock clock;
    LocalJobClient job;
    StepGate gate(&job, 2, bound, clock);
    ASSERT_TRUE(gate.Join().ok());
    Lead lead(2);
    absl::Status fast;
    std::thread ahead(
        [&] { fast = RunThread(&gate, 0, &lead, 0, /*steps=*/50); });
    // It gets so far without the other one.
    EXPECT_TRUE(lead.AwaitFinished(0, bound + 1));
    EXPECT_LE(lead.largest(), bound);
    const absl::Status slow = RunThread(&gate, 1, &lead, 1, /*steps=*/50);
    ahead.join();
    EXPECT_TRUE(fast.ok()) << fast;
    EXPECT_TRUE(slow.ok()) << slow;
    EXPECT_TRUE(gate.Leave().ok());
    EXPECT_EQ(lead.largest(), bound);
  }
}

TEST(StepGateTest, PushesThatAreAnsweredOutOfOrderCountFromTheOldest) {
  const FakeClock clock;
  LocalJobClient job;
  StepGate gate(&job, 1, /*bound=*/1, clock);
  ASSERT_TRUE(gate.Join().ok());
  EXPECT_EQ(*gate.Begin(0), 0u);
  EXPECT_EQ(*gate.Begin(0), 1u);
  gate.Finished(0, 1);
  std::atomic<bool> oldest_is_next = false;
  std::thread next([&] {
    EXPECT_EQ(*gate.Begin(0), 2u);
    EXPECT_TRUE(oldest_is_next) << "step 0 was not finished";
  });
  oldest_is_next = true;
  gate.Finished(0, 0);
  next.join();
  gate.Finished(0, 2);
  gate.LeaveThread(0);
  EXPECT_TRUE(gate.Leave().ok());
}

TEST(StepGateTest, StopEndsWaiting) {
  const FakeClock clock;
  LocalJobClient job;
  StepGate gate(&job, 1, /*bound=*/0, clock);
  ASSERT_TRUE(gate.Join().ok());
  ASSERT_TRUE(gate.Begin(0).ok());
  std::thread stopping([&] { gate.Stop(); });
  EXPECT_TRUE(absl::IsCancelled(gate.Begin(0).status()));
  stopping.join();
}

// Workers of a job with real servers, one compute thread each.
class StepGateClusterTest : public ::testing::Test {
 protected:
  void Start(uint32_t num_workers) {
    MiniClusterOptions options;
    options.num_workers = num_workers;
    options.lease = kLease;
    options.server_clocks = {.wall = &clock_, .monotonic = &clock_};
    options.restart_grace = absl::Minutes(10);
    auto cluster = MiniCluster::Start(options);
    ASSERT_TRUE(cluster.ok()) << cluster.status();
    cluster_ = *std::move(cluster);
    for (uint32_t i = 0; i < num_workers; ++i) {
      auto worker = MiniWorker::Join(*cluster_, i);
      ASSERT_TRUE(worker.ok()) << worker.status();
      workers_.push_back(*std::move(worker));
    }
  }

  SkippableClock clock_;
  std::unique_ptr<MiniCluster> cluster_;
  std::vector<std::unique_ptr<MiniWorker>> workers_;
};

TEST_F(StepGateClusterTest, NoWorkerIsFurtherAheadThanTheBound) {
  constexpr uint32_t kWorkers = 3;
  constexpr uint64_t kSteps = 120;
  Start(kWorkers);
  uint64_t epoch = 0;
  for (const uint64_t bound : {0, 1, 4}) {
    SCOPED_TRACE(absl::StrCat("bound ", bound));
    Lead lead(kWorkers);
    std::vector<absl::Status> statuses(kWorkers);
    std::vector<std::thread> threads;
    for (uint32_t w = 0; w < kWorkers; ++w) {
      threads.emplace_back([&, w] {
        client::JobClient& job = workers_[w]->job();
        StepGate gate(&job, 1, bound, workers_[w]->connections().clock());
        statuses[w] = gate.Join();
        if (statuses[w].ok()) {
          statuses[w] = job.Barrier(absl::StrCat("epoch ", epoch));
        }
        // The last one begins when the others can get no further.
        if (statuses[w].ok() && w + 1 == kWorkers) {
          EXPECT_TRUE(lead.AwaitFinished(0, bound + 1));
          EXPECT_TRUE(lead.AwaitFinished(1, bound + 1));
          EXPECT_EQ(lead.largest(), bound);
        }
        // The first one has less to do; nobody waits for it then.
        const uint64_t steps = w == 0 ? kSteps / 2 : kSteps;
        if (statuses[w].ok()) {
          statuses[w] = RunThread(&gate, 0, &lead, w, steps);
        }
        if (statuses[w].ok()) statuses[w] = gate.Leave();
      });
    }
    for (std::thread& thread : threads) thread.join();
    for (const absl::Status& status : statuses) {
      EXPECT_TRUE(status.ok()) << status;
    }
    EXPECT_EQ(lead.largest(), bound);
    ++epoch;
  }
}

TEST_F(StepGateClusterTest, DeathFreesWhoeverWaits) {
  Start(2);
  Lead lead(2);
  StepGate gate(&workers_[0]->job(), 1, /*bound=*/2,
                workers_[0]->connections().clock());
  ASSERT_TRUE(gate.Join().ok());
  ASSERT_TRUE(workers_[1]->job().JoinSteps().ok());
  absl::Status status;
  std::thread survivor(
      [&] { status = RunThread(&gate, 0, &lead, 0, /*steps=*/20); });
  EXPECT_TRUE(lead.AwaitFinished(0, 3));
  EXPECT_EQ(lead.largest(), 2u);
  lead.Gone(1);
  workers_[1].reset();
  EXPECT_TRUE(SkipUntilLost(*cluster_, &clock_, kLease, workers_[0]->job(), 1));
  survivor.join();
  EXPECT_TRUE(status.ok()) << status;
  EXPECT_EQ(lead.largest(), 2u);
  EXPECT_TRUE(gate.Leave().ok());
}

TEST_F(StepGateClusterTest, LateComerBeginsWhereTheSlowestIs) {
  Start(2);
  Lead lead(2);
  StepGate first(&workers_[0]->job(), 1, /*bound=*/3,
                 workers_[0]->connections().clock());
  ASSERT_TRUE(first.Join().ok());
  for (uint64_t step = 0; step < 10; ++step) {
    ASSERT_EQ(*first.Begin(0), step);
    first.Finished(0, step);
  }
  // What is finished has been told when the next step may begin that needs it.
  ASSERT_EQ(*first.Begin(0), 10u);
  StepGate late(&workers_[1]->job(), 1, /*bound=*/3,
                workers_[1]->connections().clock());
  ASSERT_TRUE(late.Join().ok());
  const uint64_t begins_with = *late.Begin(0);
  EXPECT_GE(begins_with, 7u);
  EXPECT_LE(begins_with, 10u);
}

}  // namespace
}  // namespace oarlock::worker
