#include "pserver/coordinator.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <atomic>
#include <memory>
#include <optional>
#include <string>
#include <thread>
#include <utility>
#include <vector>

namespace oarlock {
namespace {

using ::testing::HasSubstr;

constexpr absl::Duration kLease = absl::Seconds(10);

// A job with a fake clock. Server 0 reports whenever time passes.
class CoordinatorTest : public ::testing::Test {
 protected:
  explicit CoordinatorTest(uint32_t num_workers = 3, uint32_t num_servers = 1)
      : clock_(absl::FromUnixMillis(1'000'000)) {
    options_.num_workers = num_workers;
    options_.num_servers = num_servers;
    options_.lease = kLease;
    options_.restart_grace = absl::Seconds(20);
    options_.start_timeout = absl::Seconds(100);
    options_.drain_grace = absl::Seconds(3);
    coordinator_.emplace(options_, clock_);
  }

  uint64_t Register(uint32_t worker) {
    v1::RegisterWorkerRequest request;
    request.set_worker_index(worker);
    request.set_host("h");
    request.set_pid(100 + worker);
    const auto response = coordinator_->RegisterWorker(request);
    EXPECT_TRUE(response.ok()) << response.status();
    return response.ok() ? response->worker_generation() : 0;
  }
  absl::StatusOr<v1::HeartbeatResponse> Beat(uint32_t worker,
                                             uint64_t generation) {
    v1::HeartbeatRequest request;
    request.set_worker_index(worker);
    request.set_worker_generation(generation);
    return coordinator_->Heartbeat(request);
  }
  absl::Status Finish(uint32_t worker, uint64_t generation,
                      bool succeeded = true, const std::string& reason = "") {
    v1::FinishWorkerRequest request;
    request.set_worker_index(worker);
    request.set_worker_generation(generation);
    request.set_succeeded(succeeded);
    request.set_reason(reason);
    return coordinator_->FinishWorker(request);
  }
  // The heartbeat of a server that acts by the answer to its last one.
  v1::ServerHeartbeatResponse ServerBeat(uint32_t server,
                                         uint64_t generation = 1) {
    v1::ServerHeartbeatRequest request;
    request.set_server_index(server);
    request.set_server_generation(generation);
    request.set_membership_version(versions_[server]);
    const auto response = coordinator_->ServerHeartbeat(request);
    EXPECT_TRUE(response.ok()) << response.status();
    versions_[server] = response->membership_version();
    return *response;
  }
  // The outcome of a barrier call: nothing while it waits.
  using Outcome = std::shared_ptr<std::optional<absl::Status>>;
  Outcome Arrive(const std::string& name, uint32_t worker, uint64_t generation,
                 int wait_ms = 50'000) {
    v1::BarrierRequest request;
    request.set_name(name);
    request.set_worker_index(worker);
    request.set_worker_generation(generation);
    request.set_wait_ms(wait_ms);
    auto outcome = std::make_shared<std::optional<absl::Status>>();
    coordinator_->Barrier(request, [outcome](absl::Status status) {
      EXPECT_FALSE(outcome->has_value()) << "answered twice";
      *outcome = std::move(status);
    });
    return outcome;
  }
  absl::StatusOr<v1::LeaseWorkResponse> Lease(uint32_t worker,
                                              uint64_t generation,
                                              std::vector<uint64_t> done = {}) {
    v1::LeaseWorkRequest request;
    request.set_work("train/0");
    request.set_worker_index(worker);
    request.set_worker_generation(generation);
    request.set_max_ranges(1);
    request.set_request(++last_request_);
    for (uint64_t lease : done) request.add_done(lease);
    return coordinator_->LeaseWork(request);
  }
  void Define(int num_ranges) {
    v1::DefineWorkRequest request;
    request.set_work("train/0");
    for (int i = 0; i < num_ranges; ++i) request.add_ranges()->set_begin(i);
    ASSERT_TRUE(coordinator_->DefineWork(request).ok());
  }
  // Time passes in steps, as it does where a thread sweeps. The workers in
  // `alive` renew their leases.
  void Pass(absl::Duration time,
            const std::vector<std::pair<uint32_t, uint64_t>>& alive = {}) {
    for (absl::Duration step = absl::Seconds(1); time > absl::ZeroDuration();
         time -= step) {
      clock_.Advance(step);
      for (const auto& [worker, generation] : alive) {
        ASSERT_TRUE(Beat(worker, generation).ok());
      }
      for (uint32_t i = 0; i < options_.num_servers; ++i) {
        if (!silent_[i]) ServerBeat(i);
      }
      coordinator_->Sweep();
    }
  }
  v1::WorkerState::Life LifeOf(uint32_t worker) {
    const v1::JobStatusResponse status = coordinator_->JobStatus({});
    for (const v1::WorkerState& state : status.workers()) {
      if (state.worker_index() == worker) return state.life();
    }
    return v1::WorkerState::LIFE_UNSPECIFIED;
  }

  FakeClock clock_;
  CoordinatorOptions options_;
  std::optional<Coordinator> coordinator_;
  uint64_t versions_[4] = {};
  bool silent_[4] = {};
  uint64_t last_request_ = 0;
};

class TwoServerCoordinatorTest : public CoordinatorTest {
 protected:
  TwoServerCoordinatorTest() : CoordinatorTest(2, 2) {}
};

bool Is(const std::shared_ptr<std::optional<absl::Status>>& outcome,
        absl::StatusCode code) {
  return outcome->has_value() && (*outcome)->code() == code;
}

TEST_F(CoordinatorTest, LogicalTimeCountsTicksInWhichTheCoordinatorRan) {
  EXPECT_EQ(ServerBeat(0).logical_time(), 0u);
  clock_.Advance(absl::Milliseconds(999));
  coordinator_->Sweep();
  EXPECT_EQ(ServerBeat(0).logical_time(), 0u);
  clock_.Advance(absl::Milliseconds(2001));
  coordinator_->Sweep();
  EXPECT_EQ(ServerBeat(0).logical_time(), 3u);
  // Stood still: nothing ages meanwhile.
  clock_.Advance(absl::Hours(1));
  coordinator_->Sweep();
  EXPECT_EQ(ServerBeat(0).logical_time(), 3u);
  clock_.Advance(absl::Seconds(1));
  coordinator_->Sweep();
  EXPECT_EQ(ServerBeat(0).logical_time(), 4u);
}

TEST_F(CoordinatorTest, GenerationsGrowAlsoAcrossRestarts) {
  const uint64_t first = Register(0);
  const uint64_t second = Register(0);
  EXPECT_GT(second, first);
  clock_.Advance(absl::Seconds(1));
  coordinator_.emplace(options_, clock_);
  EXPECT_GT(Register(0), second);
}

TEST_F(CoordinatorTest, IndexBeyondTheJobIsInvalidArgument) {
  v1::RegisterWorkerRequest request;
  request.set_worker_index(3);
  EXPECT_EQ(coordinator_->RegisterWorker(request).status().code(),
            absl::StatusCode::kInvalidArgument);
  EXPECT_EQ(Beat(3, 1).status().code(), absl::StatusCode::kInvalidArgument);
}

TEST_F(CoordinatorTest, RegisteringAgainFencesTheOlderGeneration) {
  const uint64_t old_generation = Register(0);
  const auto waits = Arrive("b", 0, old_generation);
  Define(1);
  ASSERT_EQ(Lease(0, old_generation)->ranges_size(), 1);
  const uint64_t generation = Register(0);
  EXPECT_TRUE(Is(waits, absl::StatusCode::kAborted));
  EXPECT_EQ(Beat(0, old_generation).status().code(),
            absl::StatusCode::kAborted);
  EXPECT_EQ(Lease(0, old_generation).status().code(),
            absl::StatusCode::kAborted);
  EXPECT_EQ(Finish(0, old_generation).code(), absl::StatusCode::kAborted);
  EXPECT_TRUE(Is(Arrive("b", 0, old_generation), absl::StatusCode::kAborted));
  EXPECT_TRUE(Beat(0, generation).ok());
  // Its range comes back once the server refuses the old generation's pushes.
  EXPECT_EQ(Lease(0, generation)->ranges_size(), 0);
  ServerBeat(0);
  ServerBeat(0);
  EXPECT_EQ(Lease(0, generation)->ranges_size(), 1);
}

TEST_F(CoordinatorTest, WorkerThatIsSilentForItsLeaseIsLost) {
  const uint64_t a = Register(0);
  const uint64_t b = Register(1);
  Pass(absl::Seconds(10), {{1, b}});
  EXPECT_EQ(LifeOf(0), v1::WorkerState::ALIVE);
  Pass(absl::Seconds(1), {{1, b}});
  EXPECT_EQ(LifeOf(0), v1::WorkerState::LOST);
  EXPECT_EQ(LifeOf(1), v1::WorkerState::ALIVE);
  EXPECT_EQ(Beat(0, a).status().code(), absl::StatusCode::kAborted);
  const uint64_t successor = Register(0);
  EXPECT_EQ(LifeOf(0), v1::WorkerState::ALIVE);
  EXPECT_TRUE(Beat(0, successor).ok());
}

TEST_F(CoordinatorTest, TimeInWhichTheCoordinatorStoodStillCountsOnNobody) {
  const uint64_t a = Register(0);
  clock_.Advance(absl::Minutes(5));
  coordinator_->Sweep();
  EXPECT_EQ(LifeOf(0), v1::WorkerState::ALIVE);
  EXPECT_TRUE(Beat(0, a).ok());
  Pass(absl::Seconds(11));
  EXPECT_EQ(LifeOf(0), v1::WorkerState::LOST);
}

TEST_F(CoordinatorTest, BarrierPassesWhenAllWorkersHaveCome) {
  const uint64_t a = Register(0);
  const uint64_t b = Register(1);
  const auto first = Arrive("start", 0, a);
  const auto second = Arrive("start", 1, b);
  EXPECT_FALSE(first->has_value());
  // Worker 2 has not registered yet, but it is expected.
  EXPECT_FALSE(second->has_value());
  const uint64_t c = Register(2);
  EXPECT_FALSE(first->has_value());
  const auto third = Arrive("start", 2, c);
  EXPECT_TRUE(Is(first, absl::StatusCode::kOk));
  EXPECT_TRUE(Is(second, absl::StatusCode::kOk));
  EXPECT_TRUE(Is(third, absl::StatusCode::kOk));
  // Passed once is passed for ever.
  EXPECT_TRUE(Is(Arrive("start", 1, b), absl::StatusCode::kOk));
  EXPECT_FALSE(Arrive("end", 1, b)->has_value());
}

TEST_F(CoordinatorTest, BarrierDoesNotWaitForTheLostAndTheFinished) {
  const uint64_t a = Register(0);
  const uint64_t b = Register(1);
  const uint64_t c = Register(2);
  const auto waits = Arrive("b", 0, a);
  ASSERT_TRUE(Finish(1, b).ok());
  EXPECT_FALSE(waits->has_value());
  Pass(absl::Seconds(11), {{0, a}});
  EXPECT_EQ(LifeOf(2), v1::WorkerState::LOST);
  EXPECT_TRUE(Is(waits, absl::StatusCode::kOk));
  EXPECT_TRUE(Is(Arrive("b", 2, c), absl::StatusCode::kAborted));
}

TEST_F(CoordinatorTest, ArrivalOfTheDeadDoesNotCount) {
  const uint64_t a = Register(0);
  const uint64_t b = Register(1);
  const uint64_t c = Register(2);
  Arrive("b", 0, a);
  const uint64_t successor = Register(0);
  const auto waits = Arrive("b", 1, b);
  Arrive("b", 2, c);
  EXPECT_FALSE(waits->has_value());
  Arrive("b", 0, successor);
  EXPECT_TRUE(Is(waits, absl::StatusCode::kOk));
}

TEST_F(CoordinatorTest, BarrierCallThatIsRepeatedCountsOnce) {
  const uint64_t a = Register(0);
  const auto first = Arrive("b", 0, a);
  const auto second = Arrive("b", 0, a);
  EXPECT_TRUE(Is(first, absl::StatusCode::kUnavailable));
  EXPECT_FALSE(second->has_value());
}

TEST_F(CoordinatorTest, BarrierSaysNotYetAfterItsWait) {
  const uint64_t a = Register(0);
  const auto waits = Arrive("b", 0, a, 3000);
  Pass(absl::Seconds(2), {{0, a}});
  EXPECT_FALSE(waits->has_value());
  Pass(absl::Seconds(1), {{0, a}});
  EXPECT_TRUE(Is(waits, absl::StatusCode::kUnavailable));
  EXPECT_TRUE(
      Is(Arrive("b", 0, a, /*wait_ms=*/0), absl::StatusCode::kUnavailable));
}

TEST_F(CoordinatorTest, ShutdownAnswersWhatWaits) {
  const uint64_t a = Register(0);
  const auto waits = Arrive("b", 0, a);
  coordinator_->Shutdown();
  EXPECT_TRUE(Is(waits, absl::StatusCode::kUnavailable));
  EXPECT_TRUE(Is(Arrive("b", 0, a), absl::StatusCode::kUnavailable));
}

TEST_F(CoordinatorTest, ReportIsAddedOnce) {
  v1::HeartbeatRequest request;
  request.set_worker_index(0);
  request.set_worker_generation(Register(0));
  request.set_report(1);
  v1::PhaseProgress* progress = request.add_progress();
  progress->set_phase("train");
  progress->set_examples(7);
  ASSERT_TRUE(coordinator_->Heartbeat(request).ok());
  ASSERT_TRUE(coordinator_->Heartbeat(request).ok());
  request.set_report(2);
  ASSERT_TRUE(coordinator_->Heartbeat(request).ok());
  const v1::JobStatusResponse status = coordinator_->JobStatus({});
  ASSERT_EQ(status.phases_size(), 1);
  EXPECT_EQ(status.phases(0).progress().examples(), 14u);
  request.set_report(0);
  EXPECT_EQ(coordinator_->Heartbeat(request).status().code(),
            absl::StatusCode::kInvalidArgument);
  // A report that is refused is not added in part.
  request.set_report(3);
  request.add_progress();
  EXPECT_EQ(coordinator_->Heartbeat(request).status().code(),
            absl::StatusCode::kInvalidArgument);
  EXPECT_EQ(coordinator_->JobStatus({}).phases(0).progress().examples(), 14u);
}

TEST_F(CoordinatorTest, JobIsOverWhenAllWorkersHaveFinished) {
  const uint64_t generations[] = {Register(0), Register(1), Register(2)};
  for (uint32_t i = 0; i < 3; ++i) {
    EXPECT_FALSE(coordinator_->Job().over);
    ASSERT_TRUE(Finish(i, generations[i]).ok());
    ASSERT_TRUE(Finish(i, generations[i]).ok());  // Repeated.
  }
  EXPECT_TRUE(coordinator_->Job().over);
  EXPECT_FALSE(coordinator_->Job().failed);
  EXPECT_TRUE(ServerBeat(0).job_finished());
  v1::RegisterWorkerRequest request;
  EXPECT_EQ(coordinator_->RegisterWorker(request).status().code(),
            absl::StatusCode::kFailedPrecondition);
}

TEST_F(CoordinatorTest, WorkerThatHasFinishedDoesNotComeBack) {
  ASSERT_TRUE(Finish(0, Register(0)).ok());
  v1::RegisterWorkerRequest request;
  EXPECT_EQ(coordinator_->RegisterWorker(request).status().code(),
            absl::StatusCode::kFailedPrecondition);
}

TEST_F(CoordinatorTest, WorkerThatGivesUpFailsTheJob) {
  const uint64_t a = Register(0);
  const uint64_t b = Register(1);
  const auto waits = Arrive("b", 1, b);
  ASSERT_TRUE(Finish(0, a, false, "bad data").ok());
  ASSERT_TRUE(Finish(0, a, false, "bad data").ok());
  EXPECT_TRUE(Is(waits, absl::StatusCode::kFailedPrecondition));
  EXPECT_THAT(std::string((*waits)->message()), HasSubstr("bad data"));
  const auto beat = Beat(1, b);
  ASSERT_TRUE(beat.ok());
  EXPECT_TRUE(beat->draining());
  EXPECT_TRUE(beat->failed());
  EXPECT_THAT(beat->reason(), HasSubstr("worker 0"));
  EXPECT_TRUE(Lease(1, b)->exhausted());
  EXPECT_FALSE(coordinator_->Job().over);
  ASSERT_TRUE(Finish(1, b).ok());
  EXPECT_TRUE(coordinator_->Job().over);
  EXPECT_TRUE(coordinator_->Job().failed);
}

TEST_F(CoordinatorTest, LostWorkerWithoutSuccessorFailsTheJob) {
  const uint64_t a = Register(0);
  Register(1);
  Pass(absl::Seconds(11 + 20), {{0, a}});
  EXPECT_FALSE(coordinator_->Job().failed);
  Pass(absl::Seconds(1), {{0, a}});
  EXPECT_TRUE(coordinator_->Job().failed);
  EXPECT_THAT(coordinator_->Job().reason, HasSubstr("worker 1 (host h"));
}

TEST_F(CoordinatorTest, WorkerThatNeverRegistersFailsTheJob) {
  Pass(absl::Seconds(300));
  EXPECT_FALSE(coordinator_->Job().failed);
  const uint64_t a = Register(0);
  const uint64_t b = Register(1);
  const auto waits = Arrive("b", 0, a, 60'000);
  Pass(absl::Seconds(100), {{0, a}, {1, b}});
  EXPECT_FALSE(coordinator_->Job().failed);
  Pass(absl::Seconds(1), {{0, a}, {1, b}});
  EXPECT_TRUE(coordinator_->Job().failed);
  EXPECT_THAT(coordinator_->Job().reason, HasSubstr("worker 2 of 3"));
}

TEST_F(CoordinatorTest, DrainWaitsForWorkersButNotForEver) {
  const uint64_t a = Register(0);
  coordinator_->Drain("enough");
  EXPECT_TRUE(Beat(0, a)->draining());
  EXPECT_FALSE(Beat(0, a)->failed());
  EXPECT_FALSE(coordinator_->Job().over);
  Pass(absl::Seconds(4), {{0, a}});
  EXPECT_TRUE(coordinator_->Job().over);
  EXPECT_FALSE(coordinator_->Job().failed);
  EXPECT_THAT(coordinator_->Job().reason, HasSubstr("enough"));
}

TEST_F(CoordinatorTest, LostWorkersWorkIsDoneByOthers) {
  const uint64_t a = Register(0);
  const uint64_t b = Register(1);
  Define(2);
  const auto lost = Lease(0, a);
  const auto own = Lease(1, b);
  ASSERT_EQ(lost->ranges_size(), 1);
  const auto waits = Lease(1, b, {own->leases(0)});
  EXPECT_EQ(waits->ranges_size(), 0);
  EXPECT_FALSE(waits->exhausted());
  Pass(absl::Seconds(13), {{1, b}});
  const auto taken = Lease(1, b);
  ASSERT_EQ(taken->ranges_size(), 1);
  EXPECT_EQ(taken->ranges(0).begin(), lost->ranges(0).begin());
  EXPECT_TRUE(Lease(1, b, {taken->leases(0)})->exhausted());
}

TEST_F(TwoServerCoordinatorTest, WorkIsLeasedAgainOnlyWhenAllServersKnow) {
  const uint64_t a = Register(0);
  const uint64_t b = Register(1);
  ServerBeat(0);
  ServerBeat(1);
  Define(1);
  ASSERT_EQ(Lease(0, a)->ranges_size(), 1);
  Register(0);
  ServerBeat(0);
  ServerBeat(0);
  EXPECT_EQ(Lease(1, b)->ranges_size(), 0);
  // The answer reaches server 1, but it has not said that it acts by it.
  ServerBeat(1);
  EXPECT_EQ(Lease(1, b)->ranges_size(), 0);
  ServerBeat(1);
  EXPECT_EQ(Lease(1, b)->ranges_size(), 1);
}

TEST_F(TwoServerCoordinatorTest, WorkDoesNotWaitForAServerThatFellSilent) {
  const uint64_t a = Register(0);
  const uint64_t b = Register(1);
  ServerBeat(0);
  ServerBeat(1);
  Define(1);
  ASSERT_EQ(Lease(0, a)->ranges_size(), 1);
  silent_[1] = true;
  const uint64_t successor = Register(0);
  Pass(absl::Seconds(9), {{0, successor}, {1, b}});
  EXPECT_EQ(Lease(1, b)->ranges_size(), 0);
  Pass(absl::Seconds(2), {{0, successor}, {1, b}});
  EXPECT_EQ(Lease(1, b)->ranges_size(), 1);
  EXPECT_EQ(coordinator_->JobStatus({}).num_servers_alive(), 1u);
}

TEST_F(TwoServerCoordinatorTest, ServersLearnThatTheJobIsOver) {
  ServerBeat(0);
  ServerBeat(1);
  EXPECT_EQ(coordinator_->JobStatus({}).num_servers_alive(), 2u);
  ASSERT_TRUE(Finish(0, Register(0)).ok());
  ASSERT_TRUE(Finish(1, Register(1)).ok());
  EXPECT_FALSE(coordinator_->OthersKnowItIsOver(ServerIndex(0)));
  EXPECT_TRUE(ServerBeat(1).job_finished());
  EXPECT_TRUE(coordinator_->OthersKnowItIsOver(ServerIndex(0)));
}

TEST_F(TwoServerCoordinatorTest, ServerThatLeavesFailsTheJob) {
  ServerBeat(1);
  v1::ServerHeartbeatRequest request;
  request.set_server_index(1);
  request.set_server_generation(1);
  request.set_leaving(true);
  ASSERT_TRUE(coordinator_->ServerHeartbeat(request).ok());
  EXPECT_TRUE(coordinator_->Job().failed);
  EXPECT_THAT(coordinator_->Job().reason, HasSubstr("server 1"));
}

TEST_F(TwoServerCoordinatorTest, OlderServerGenerationIsAborted) {
  ServerBeat(1, 5);
  v1::ServerHeartbeatRequest request;
  request.set_server_index(1);
  request.set_server_generation(4);
  EXPECT_EQ(coordinator_->ServerHeartbeat(request).status().code(),
            absl::StatusCode::kAborted);
  request.set_server_index(2);
  EXPECT_EQ(coordinator_->ServerHeartbeat(request).status().code(),
            absl::StatusCode::kInvalidArgument);
}

// Many workers at once, under tsan too: nobody passes a barrier before the
// last one has come.
TEST(CoordinatorConcurrencyTest, ThreadsMeetAtEveryBarrier) {
  constexpr uint32_t kWorkers = 4;
  constexpr int kBarriers = 50;
  CoordinatorOptions options;
  options.num_workers = kWorkers;
  Coordinator coordinator(options, Clock::Real());
  std::atomic<int> arrived[kBarriers] = {};
  std::atomic<int> early{0};
  std::vector<std::thread> threads;
  for (uint32_t w = 0; w < kWorkers; ++w) {
    threads.emplace_back([&, w] {
      v1::RegisterWorkerRequest registration;
      registration.set_worker_index(w);
      const uint64_t generation =
          coordinator.RegisterWorker(registration)->worker_generation();
      for (int i = 0; i < kBarriers; ++i) {
        v1::BarrierRequest request;
        request.set_name(std::to_string(i));
        request.set_worker_index(w);
        request.set_worker_generation(generation);
        request.set_wait_ms(60'000);
        ++arrived[i];
        absl::Mutex mutex;
        bool passed = false;
        coordinator.Barrier(request, [&](absl::Status status) {
          absl::MutexLock lock(&mutex);
          passed = status.ok();
        });
        mutex.LockWhen(absl::Condition(&passed));
        mutex.Unlock();
        if (arrived[i] != kWorkers) ++early;
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(early, 0);
}

}  // namespace
}  // namespace oarlock
