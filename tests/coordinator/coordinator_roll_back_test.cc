// When the servers of a job that stays go back to the newest cut.

#include <gtest/gtest.h>

#include <cstdint>

#include "absl/status/status.h"
#include "absl/strings/match.h"
#include "coordinator/coordinator.h"
#include "coordinator/dead_worker_recovery.h"
#include "tests/coordinator/coordinator_stay_testing.h"

namespace oarlock::coordinator {
namespace {

using Request = v1::RegisterWorkerRequest;

class CoordinatorRollBackTest : public CoordinatorStayTest {
 protected:
  // The silent worker is taken for dead, and the server tells what it has of
  // it, after it was asked to.
  void Die(const std::vector<std::pair<uint32_t, uint64_t>>& alive = {}) {
    Pass(kLease + absl::Seconds(1), alive);
    if (!coordinator_->rolls_back()) ServerBeat(0);
    if (!coordinator_->rolls_back()) ServerBeat(0);
  }

  // The run is over, and nobody gets on before the servers have gone back.
  void ExpectRollBack(uint64_t generation) {
    EXPECT_TRUE(coordinator_->rolls_back());
    EXPECT_TRUE(coordinator_->JobStatus({}).run_is_over());
    const absl::Status told = Beat(0, generation).status();
    EXPECT_TRUE(absl::IsAborted(told)) << told;
    EXPECT_TRUE(absl::IsUnavailable(Join(0, 1).status()));
    EXPECT_FALSE(coordinator_->OpenCut().ok());
    EXPECT_FALSE(ServersEnd());
  }
};

TEST_F(CoordinatorRollBackTest, APartialPushWithoutExamples) {
  const uint64_t dead = MustJoin(0, 2).worker_generation();
  const uint64_t other = MustJoin(1, 2).worker_generation();
  AddPartialPush(0, 0, dead, std::nullopt);
  Die({{1, other}});
  ExpectRollBack(dead);
  const absl::Status told = Beat(1, other).status();
  EXPECT_TRUE(absl::IsAborted(told)) << told;
  EXPECT_TRUE(absl::StrContains(told.message(), "worker 0 died in a push"))
      << told;
  EXPECT_TRUE(absl::StrContains(told.message(), "join again")) << told;
}

TEST_F(CoordinatorRollBackTest, NotWhereEachPushIsWhole) {
  const uint64_t dead = Join(0, 1, true, 0, Request::CUT)->worker_generation();
  const uint32_t epoch = DefineMine(2);
  ASSERT_EQ(Lease(0, dead)->leases_size(), 1);
  AddPartialPush(0, 0, dead, epoch);
  ledgers_[0].back().mutable_pushes(0)->add_messages(1);
  // Older than the window: all servers had acknowledged it.
  ledgers_[0].back().set_highest(100);
  *ledgers_[0].back().add_pushes() = ledgers_[0].back().pushes(0);
  v1::PushRecord* const old = ledgers_[0].back().mutable_pushes(1);
  old->set_sequence(2);
  old->clear_messages();
  old->clear_examples();
  old->clear_dense_examples();
  Die();
  EXPECT_FALSE(coordinator_->rolls_back());
  EXPECT_EQ(MustJoin(0, 1).unfinished_size(), 0);
}

TEST_F(CoordinatorRollBackTest, APushOfARunThatCannotRepeatIt) {
  const uint64_t dead = Join(0, 1, true, 0, Request::CUT)->worker_generation();
  const uint32_t epoch = DefineMine(2);
  ASSERT_EQ(Lease(0, dead)->leases_size(), 1);
  AddPartialPush(0, 0, dead, epoch);
  Die();
  ExpectRollBack(dead);
}

TEST_F(CoordinatorRollBackTest, AllWorkersOfARunSayTheSame) {
  EXPECT_TRUE(Join(0, 3, true, 0, Request::CUT).ok());
  EXPECT_TRUE(absl::IsFailedPrecondition(
      Join(1, 3, true, 0, Request::RECOVER).status()));
  EXPECT_TRUE(Join(1, 3, true, 0, Request::CUT).ok());
  EXPECT_TRUE(Join(2, 3).ok());
}

TEST_F(CoordinatorRollBackTest, WhoSaysNothingRecovers) {
  EXPECT_TRUE(Join(0, 3).ok());
  EXPECT_TRUE(Join(1, 3, true, 0, Request::RECOVER).ok());
  EXPECT_TRUE(
      absl::IsFailedPrecondition(Join(2, 3, true, 0, Request::CUT).status()));
}

TEST_F(CoordinatorRollBackTest, WhatThisRunHasDefinedIsNotOfTheRunBefore) {
  const uint64_t dead = MustJoin(0, 2).worker_generation();
  const uint64_t other = MustJoin(1, 2).worker_generation();
  const uint32_t epoch = DefineMine(2);
  ASSERT_EQ(Lease(0, dead)->leases_size(), 1);
  AddPartialPush(0, 0, dead, epoch);
  Die({{1, other}});
  // Its successor may begin with another work: somebody of this run is at that
  // one.
  EXPECT_EQ(MustJoin(0, 2).unfinished_size(), 0);
  EXPECT_FALSE(coordinator_->rolls_back());
}

TEST_F(CoordinatorRollBackTest, ADrainIsNotForgotten) {
  const uint64_t worker = MustJoin(0, 1).worker_generation();
  ASSERT_TRUE(coordinator_->Drain("a test").ok());
  v1::FinishWorkerRequest request;
  request.set_worker_generation(worker);
  request.set_roll_back(true);
  ASSERT_TRUE(coordinator_->FinishWorker(request).ok());
  EXPECT_FALSE(coordinator_->rolls_back());
  EXPECT_TRUE(ServersEnd());
}

TEST_F(CoordinatorRollBackTest, ADrainWaitsForTheNextLife) {
  const uint64_t worker = MustJoin(0, 1).worker_generation();
  v1::FinishWorkerRequest request;
  request.set_worker_generation(worker);
  request.set_roll_back(true);
  ASSERT_TRUE(coordinator_->FinishWorker(request).ok());
  EXPECT_TRUE(absl::IsUnavailable(coordinator_->Drain("a test")));
}

TEST_F(CoordinatorRollBackTest, AWorkerThatDiesInRounds) {
  const uint64_t dead = MustJoin(0, 1).worker_generation();
  AddLedger(0, 0, dead)->set_joined_rounds(true);
  Die();
  ExpectRollBack(dead);
}

TEST_F(CoordinatorRollBackTest, NotAWorkerThatGivesUpInRounds) {
  const uint64_t left = MustJoin(0, 1).worker_generation();
  AddLedger(0, 0, left)->set_joined_rounds(true);
  ASSERT_TRUE(Finish(0, left, /*succeeded=*/false, "KeyError").ok());
  ServerBeat(0);
  ServerBeat(0);
  EXPECT_FALSE(coordinator_->rolls_back());
  EXPECT_EQ(MustJoin(0, 1).run(), 2u);
}

TEST_F(CoordinatorRollBackTest, ARunThatDoesNotGoOnWithWhatWasLeft) {
  const uint64_t dead = MustJoin(0, 1).worker_generation();
  const uint32_t epoch = DefineMine(2);
  ASSERT_EQ(Lease(0, dead)->leases_size(), 1);
  AddPartialPush(0, 0, dead, epoch);
  Die();
  EXPECT_FALSE(coordinator_->rolls_back());
  // No checkpoint waits for a run that may never come.
  const absl::Status cut = coordinator_->OpenCut().status();
  EXPECT_TRUE(absl::IsFailedPrecondition(cut)) << cut;
  EXPECT_TRUE(absl::StrContains(cut.message(), "'mine/0'")) << cut;

  const v1::RegisterWorkerResponse next = MustJoin(0, 1);
  ASSERT_EQ(next.unfinished_size(), 1);
  EXPECT_EQ(next.unfinished(0).phase_name(), "mine/0");
  v1::FinishWorkerRequest request;
  request.set_worker_generation(next.worker_generation());
  request.set_roll_back(true);
  request.set_reason("another work");
  ASSERT_TRUE(coordinator_->FinishWorker(request).ok());
  ExpectRollBack(next.worker_generation());
}

TEST_F(CoordinatorRollBackTest, ASuccessorComesToTheSameDecision) {
  const uint64_t dead = Join(0, 1, true, 0, Request::CUT)->worker_generation();
  const uint32_t epoch = DefineMine(1);
  ASSERT_EQ(Lease(0, dead)->leases_size(), 1);
  AddPartialPush(0, 0, dead, epoch);
  const auto replace = [this] {
    const v1::CoordinatorState state = coordinator_->Save();
    coordinator_.emplace(options_, clock_);
    ASSERT_TRUE(coordinator_->Load(state).ok());
    coordinator_->ResumeRun();
  };
  replace();
  EXPECT_FALSE(coordinator_->rolls_back());
  Die();
  ExpectRollBack(dead);
  replace();
  ExpectRollBack(dead);
}

TEST_F(CoordinatorRollBackTest, TheNextLifeTellsWorkersOfTheOneBefore) {
  const uint64_t before = MustJoin(0, 2).worker_generation();
  const uint64_t other = MustJoin(1, 2).worker_generation();
  options_.first_run = coordinator_->run() + 1;
  options_.rolled_back = "the servers have gone back; join again";
  clock_.Advance(absl::Seconds(1));
  coordinator_.emplace(options_, clock_);
  ServerBeat(0, 2);
  for (const auto& [rank, generation] :
       {std::pair(0, before), std::pair(1, other)}) {
    const absl::Status told = Beat(rank, generation).status();
    EXPECT_TRUE(absl::IsAborted(told)) << told;
    EXPECT_TRUE(absl::StrContains(told.message(), "have gone back")) << told;
  }
  EXPECT_EQ(MustJoin(0, 1).run(), 2u);
}

TEST(PartialPushesTest, SumsUpAllServers) {
  std::vector<v1::WorkerLedger> ledgers(2);
  EXPECT_FALSE(FindPartialPushes(ledgers).without_examples);
  v1::PushRecord* const first = ledgers[0].add_pushes();
  first->set_sequence(7);
  first->set_message_count(2);
  first->add_messages(0);
  ledgers[0].set_highest(7);
  EXPECT_TRUE(FindPartialPushes(ledgers).without_examples);
  EXPECT_FALSE(FindPartialPushes(ledgers).with_examples);
  *ledgers[1].add_pushes() = *first;
  ledgers[1].mutable_pushes(0)->set_messages(0, 1);
  EXPECT_FALSE(FindPartialPushes(ledgers).without_examples);
  ledgers[1].mutable_pushes(0)->clear_messages();
  ledgers[1].set_highest(7 + 63);
  EXPECT_TRUE(FindPartialPushes(ledgers).without_examples);
  ledgers[1].set_highest(7 + 64);
  EXPECT_FALSE(FindPartialPushes(ledgers).without_examples);
}

}  // namespace
}  // namespace oarlock::coordinator
