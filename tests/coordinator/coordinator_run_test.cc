// All processes of a job died, and a new run goes on from the coordinator's
// log.

#include <gtest/gtest.h>

#include <cstdint>
#include <string>

#include "absl/status/status.h"
#include "coordinator/coordinator.h"
#include "tests/coordinator/coordinator_testing.h"

namespace oarlock::coordinator {
namespace {

class CoordinatorRunTest : public CoordinatorTest {
 protected:
  CoordinatorRunTest() : CoordinatorTest(/*num_workers=*/2, 2) {}

  // Every process ends; the coordinator of the next run has the state.
  void NextRun(uint32_t num_workers) {
    const v1::CoordinatorState state = coordinator_->Save();
    clock_.Advance(absl::Seconds(100));
    options_.num_workers = num_workers;
    coordinator_.emplace(options_, clock_);
    ASSERT_TRUE(coordinator_->Load(state).ok());
    coordinator_->BeginRun();
    for (uint32_t server = 0; server < options_.num_servers; ++server) {
      versions_[server] = 0;
      wanted_[server].clear();
    }
    ++server_generation_;
  }
  void ServersBeat() {
    for (uint32_t server = 0; server < options_.num_servers; ++server) {
      last_ = ServerBeat(server, server_generation_);
    }
  }
  // Who died is asked for, found to have pushed nothing, and forgotten.
  void RecoverDeadWorkers() {
    for (int i = 0; i < 3; ++i) ServersBeat();
  }
  bool IsRefused(uint32_t worker, uint64_t generation) const {
    for (const v1::WorkerState& state : last_.workers()) {
      if (state.worker_index() == worker &&
          state.worker_generation() >= generation) {
        return state.worker_generation() > generation ||
               state.life() != v1::WorkerState::ALIVE;
      }
    }
    return false;
  }

  uint64_t server_generation_ = 1;
  v1::ServerHeartbeatResponse last_;
};

TEST_F(CoordinatorRunTest, WhatOldWorkersHadGoesToNewOnesOnceItIsRecovered) {
  Define(2);
  const uint64_t first = Register(0);
  const uint64_t second = Register(1);
  ServersBeat();
  ASSERT_EQ(Lease(0, first)->ranges_size(), 1);
  ASSERT_EQ(Lease(1, second)->ranges_size(), 1);

  NextRun(/*num_workers=*/1);
  const uint64_t next = Register(0);
  EXPECT_GT(next, second);
  Define(2);
  // Nobody knows yet what servers have of them.
  EXPECT_EQ(Lease(0, next)->ranges_size(), 0);
  EXPECT_TRUE(absl::IsUnavailable(coordinator_->OpenCut().status()));
  RecoverDeadWorkers();
  EXPECT_EQ(Lease(0, next)->ranges_size(), 1);
  EXPECT_EQ(Lease(0, next)->ranges_size(), 1);
  EXPECT_TRUE(coordinator_->OpenCut().ok());
}

TEST_F(CoordinatorRunTest, ServersRefuseOldWorkersBeforeAnyoneNewHasCome) {
  Define(2);
  const uint64_t first = Register(0);
  const uint64_t second = Register(1);
  ServersBeat();
  ASSERT_TRUE(Lease(0, first).ok());
  ASSERT_TRUE(Lease(1, second).ok());

  NextRun(/*num_workers=*/1);
  ServersBeat();
  EXPECT_TRUE(IsRefused(0, first));
  EXPECT_TRUE(IsRefused(1, second));
  Register(0);
  ServersBeat();
  EXPECT_TRUE(IsRefused(0, first));
  EXPECT_TRUE(IsRefused(1, second));
}

TEST_F(CoordinatorRunTest, WhatServersHaveIsNotTrainedAgain) {
  Define(2);
  const uint64_t first = Register(0);
  ServersBeat();
  ASSERT_EQ(Lease(0, first)->ranges(0).begin(), 0);

  NextRun(/*num_workers=*/2);
  for (uint32_t server = 0; server < 2; ++server) {
    v1::WorkerLedger& ledger = ledgers_[server].emplace_back();
    ledger.mutable_worker()->set_worker_generation(first);
    ledger.set_highest(1);
    v1::PushRecord& push = *ledger.add_pushes();
    push.set_sequence(1);
    push.set_message_count(2);
    push.add_messages(server);
    push.add_examples()->set_end(5);
    push.add_dense_examples()->set_end(5);
  }
  const uint64_t next = Register(1);
  RecoverDeadWorkers();
  // What is left of the first, which has no end, then the second.
  EXPECT_EQ(Lease(1, next)->ranges(0).begin(), 5);
  EXPECT_EQ(Lease(1, next)->ranges(0).begin(), 1);
}

TEST_F(CoordinatorRunTest, AJobThatFailedGoesOn) {
  const uint64_t first = Register(0);
  Register(1);
  ASSERT_TRUE(Finish(0, first, /*succeeded=*/false, "no data").ok());
  ASSERT_TRUE(coordinator_->Job().failed);

  NextRun(/*num_workers=*/2);
  EXPECT_FALSE(coordinator_->Job().ending);
  const uint64_t next = Register(0);
  EXPECT_TRUE(Beat(0, next).ok());
  EXPECT_EQ(coordinator_->JobStatus({}).reason(), "");
}

TEST_F(CoordinatorRunTest, OneThatGaveUpIsRecoveredAsOneThatDied) {
  Define(1);
  const uint64_t first = Register(0);
  ServersBeat();
  ASSERT_EQ(Lease(0, first)->ranges_size(), 1);
  ASSERT_TRUE(Finish(0, first, /*succeeded=*/false, "no data").ok());

  NextRun(/*num_workers=*/1);
  const uint64_t next = Register(0);
  EXPECT_EQ(Lease(0, next)->ranges_size(), 0);
  RecoverDeadWorkers();
  EXPECT_EQ(Lease(0, next)->ranges_size(), 1);
}

TEST_F(CoordinatorRunTest, OneThatHadFinishedRegistersAgain) {
  const uint64_t first = Register(0);
  const uint64_t second = Register(1);
  ASSERT_TRUE(Finish(0, first).ok());
  ASSERT_TRUE(Finish(1, second).ok());
  ASSERT_TRUE(coordinator_->Job().over);

  NextRun(/*num_workers=*/2);
  EXPECT_FALSE(coordinator_->Job().over);
  EXPECT_GT(Register(0), second);
}

TEST_F(CoordinatorRunTest, WorkersBeginInTheEpochThatWasNotKnownToBeOver) {
  Define(1);
  const uint64_t first = Register(0);
  Register(1);
  ServersBeat();
  const auto leased = Lease(0, first);
  ASSERT_TRUE(Lease(0, first, {leased->leases(0)}).ok());
  // In an evaluation, of which one range is done.
  phase_name_ = "test/0";
  Define(2);
  const auto evaluated = Lease(0, first);
  ASSERT_TRUE(Lease(0, first, {evaluated->leases(0)}).ok());

  NextRun(/*num_workers=*/2);
  v1::RegisterWorkerRequest request;
  EXPECT_EQ(coordinator_->RegisterWorker(request)->trained_epochs(), 0);
  RecoverDeadWorkers();
  const uint64_t next =
      coordinator_->JobStatus({}).workers(0).worker_generation();
  phase_name_ = "train/0";
  EXPECT_TRUE(Lease(0, next)->exhausted());
  // It is evaluated from its beginning.
  phase_name_ = "test/0";
  EXPECT_TRUE(absl::IsUnavailable(Lease(0, next).status()));
  Define(2);
  EXPECT_EQ(Lease(0, next)->ranges(0).begin(), 0);

  phase_name_ = "train/1";
  Define(1);
  NextRun(/*num_workers=*/2);
  EXPECT_EQ(coordinator_->RegisterWorker(request)->trained_epochs(), 1);
}

TEST_F(CoordinatorRunTest, ABarrierThatOldWorkersPassedIsMetAnew) {
  const uint64_t first = Register(0);
  const uint64_t second = Register(1);
  const Outcome passed = Arrive("tables", 0, first);
  ASSERT_TRUE(Is(Arrive("tables", 1, second), absl::StatusCode::kOk));
  ASSERT_TRUE(Is(passed, absl::StatusCode::kOk));

  NextRun(/*num_workers=*/2);
  const Outcome waits = Arrive("tables", 0, Register(0));
  EXPECT_FALSE(waits->has_value());
  EXPECT_TRUE(Is(Arrive("tables", 1, Register(1)), absl::StatusCode::kOk));
  EXPECT_TRUE(Is(waits, absl::StatusCode::kOk));
}

TEST_F(CoordinatorRunTest, APhaseMayBeDefinedOnceMoreWithOtherRanges) {
  Define(3);
  NextRun(/*num_workers=*/2);
  Define(5);
  Define(5);
  v1::DefinePhaseRequest other;
  other.set_phase_name(phase_name_);
  other.add_ranges()->set_begin(0);
  EXPECT_TRUE(absl::IsAlreadyExists(coordinator_->DefinePhase(other).status()));
  // It is what was left.
  const uint64_t next = Register(0);
  RecoverDeadWorkers();
  for (int i = 0; i < 3; ++i) EXPECT_EQ(Lease(0, next)->ranges_size(), 1);
  EXPECT_EQ(Lease(0, next)->ranges_size(), 0);
}

}  // namespace
}  // namespace oarlock::coordinator
