// A job that stays: one run of workers after another.

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/match.h"
#include "coordinator/coordinator.h"
#include "tests/coordinator/coordinator_stay_testing.h"

namespace oarlock::coordinator {
namespace {

TEST_F(CoordinatorStayTest, EachRunHasTheSizeThatItsFirstWorkerSays) {
  uint64_t run = 0;
  for (const uint32_t world : {1, 3, 2}) {
    std::vector<uint64_t> generations;
    for (uint32_t rank = 0; rank < world; ++rank) {
      const v1::RegisterWorkerResponse response = MustJoin(rank, world);
      if (rank == 0) ++run;
      EXPECT_EQ(response.run(), run);
      EXPECT_EQ(response.num_workers(), world);
      generations.push_back(response.worker_generation());
    }
    EXPECT_FALSE(coordinator_->JobStatus({}).run_is_over());
    for (uint32_t rank = 0; rank < world; ++rank) {
      EXPECT_TRUE(Finish(rank, generations[rank]).ok());
    }
    EXPECT_TRUE(coordinator_->JobStatus({}).run_is_over());
    EXPECT_FALSE(ServersEnd());
  }
}

TEST_F(CoordinatorStayTest, ARunHasPhasesAndBarriersOfItsOwn) {
  for (int run = 0; run < 2; ++run) {
    const uint64_t generation = MustJoin(0, 1).worker_generation();
    Define(2);
    auto leased = Lease(0, generation);
    ASSERT_TRUE(leased.ok()) << leased.status();
    ASSERT_EQ(leased->leases_size(), 1) << "run " << run;
    leased = Lease(0, generation, {leased->leases(0)});
    ASSERT_EQ(leased->leases_size(), 1);
    leased = Lease(0, generation, {leased->leases(0)});
    EXPECT_TRUE(leased->exhausted());
    const Outcome passed = Arrive("end", 0, generation);
    EXPECT_TRUE(Is(passed, absl::StatusCode::kOk));
    ASSERT_TRUE(Finish(0, generation).ok());
  }
  // Of two workers one waits: the name was passed in other runs alone.
  const uint64_t first = MustJoin(0, 2).worker_generation();
  const Outcome waits = Arrive("end", 0, first);
  EXPECT_FALSE(waits->has_value());
}

TEST_F(CoordinatorStayTest, WhoIsAliveKeepsItsRankAndSizeOfTheRun) {
  const uint64_t generation = MustJoin(0, 2).worker_generation();
  const absl::Status taken = Join(0, 2).status();
  EXPECT_TRUE(absl::IsAlreadyExists(taken)) << taken;
  EXPECT_TRUE(absl::StrContains(taken.message(), "process 100")) << taken;
  const absl::Status other_size = Join(1, 3).status();
  EXPECT_TRUE(absl::IsFailedPrecondition(other_size)) << other_size;
  EXPECT_TRUE(absl::StrContains(other_size.message(), "has 2 workers"))
      << other_size;
  EXPECT_TRUE(absl::IsInvalidArgument(Join(2, 2).status()));
  EXPECT_TRUE(absl::IsFailedPrecondition(Join(1, 2, true, 7).status()));
  EXPECT_TRUE(Join(1, 2, true, 1).ok());
  EXPECT_TRUE(Beat(0, generation).ok());
}

TEST_F(CoordinatorStayTest, SizesOfRunsHaveALimit) {
  EXPECT_TRUE(absl::IsInvalidArgument(Join(0, 9).status()));
  EXPECT_TRUE(absl::IsInvalidArgument(Join(8, 8).status()));
  EXPECT_TRUE(Join(7, 8).ok());
}

TEST_F(CoordinatorStayTest, WhoGivesUpEndsNeitherItsRunNorTheJob) {
  const uint64_t first = MustJoin(0, 2).worker_generation();
  const uint64_t second = MustJoin(1, 2).worker_generation();
  Define(1);
  ASSERT_EQ(Lease(0, first)->leases_size(), 1);
  ASSERT_TRUE(Finish(0, first, /*succeeded=*/false, "KeyboardInterrupt").ok());
  ServerBeat(0);
  ServerBeat(0);
  // What it had is the other one's.
  auto leased = Lease(1, second);
  ASSERT_TRUE(leased.ok()) << leased.status();
  EXPECT_EQ(leased->leases_size(), 1);
  EXPECT_TRUE(Is(Arrive("end", 1, second), absl::StatusCode::kOk));
  EXPECT_FALSE(ServersEnd());
  ASSERT_TRUE(Finish(1, second).ok());
  EXPECT_TRUE(coordinator_->JobStatus({}).run_is_over());
  EXPECT_FALSE(ServersEnd());
}

TEST_F(CoordinatorStayTest, AProgramThatIsStartedAgainBeginsTheNextRun) {
  const uint64_t killed = MustJoin(0, 1).worker_generation();
  // Its lease runs on.
  EXPECT_TRUE(absl::IsAlreadyExists(Join(0, 1).status()));
  Pass(kLease + absl::Seconds(1));
  EXPECT_EQ(LifeOf(0), v1::WorkerState::LOST);
  const v1::RegisterWorkerResponse next = MustJoin(0, 3);
  EXPECT_EQ(next.run(), 2u);
  EXPECT_EQ(next.num_workers(), 3u);
  EXPECT_TRUE(absl::IsAborted(Beat(0, killed).status()));
}

TEST_F(CoordinatorStayTest, AWorkerOfANamedRunTakesPartInNoOther) {
  const auto join = [this](uint32_t rank, const std::string& name) {
    return JoinNamed(rank, 2, name);
  };
  const uint64_t first = join(0, "a")->worker_generation();
  EXPECT_TRUE(absl::IsFailedPrecondition(join(1, "b").status()));
  ASSERT_TRUE(join(1, "a").ok());
  // Both are killed: who comes back goes on in the run.
  Pass(kLease + absl::Seconds(1));
  EXPECT_NE(LifeOf(0), v1::WorkerState::ALIVE);
  const auto second = join(0, "a");
  ASSERT_TRUE(second.ok()) << second.status();
  EXPECT_EQ(second->run(), 1u);
  EXPECT_GT(second->worker_generation(), first);
  // One finishes and the other one never comes back in time.
  ASSERT_TRUE(Finish(0, second->worker_generation()).ok());
  Pass(options_.restart_grace + absl::Seconds(1));
  const absl::Status late = join(1, "a").status();
  EXPECT_TRUE(absl::IsFailedPrecondition(late)) << late;
  EXPECT_TRUE(absl::StrContains(late.message(), "run 'a' is over")) << late;
  // Runs of other names, and without one; all of that is known to a successor.
  const auto other = join(0, "");
  ASSERT_TRUE(other.ok()) << other.status();
  EXPECT_EQ(other->run(), 2u);
  const v1::CoordinatorState state = coordinator_->Save();
  coordinator_.emplace(options_, clock_);
  ASSERT_TRUE(coordinator_->Load(state).ok());
  Pass(kLease + absl::Seconds(1));
  EXPECT_TRUE(absl::IsFailedPrecondition(join(1, "a").status()));
  // A run of which nobody has finished is begun again under its name.
  EXPECT_EQ(join(0, "c")->run(), 3u);
  EXPECT_EQ(join(1, "c")->run(), 3u);
  Pass(kLease + options_.restart_grace + absl::Seconds(5));
  EXPECT_EQ(join(0, "c")->run(), 4u);
  const absl::Status long_name = join(1, std::string(257, 'x')).status();
  EXPECT_TRUE(absl::IsInvalidArgument(long_name)) << long_name;
}

TEST_F(CoordinatorStayTest, ACutKnowsWhichRunsWereFinished) {
  // What a job that is restored from a cut says to late workers of "a" and "b".
  const auto join_restored = [this](uint64_t cut) {
    v1::CheckpointManifest manifest;
    coordinator_->DescribeCut(&manifest);
    EXPECT_EQ(manifest.cut(), cut);
    coordinator_->CloseCut();
    const v1::CoordinatorState state = coordinator_->Save();
    std::vector<absl::StatusCode> codes;
    for (const char* const name : {"a", "b"}) {
      coordinator_.emplace(options_, clock_);
      coordinator_->Restore(manifest);
      ServerBeat(0);
      codes.push_back(JoinNamed(0, 1, name).status().code());
    }
    coordinator_.emplace(options_, clock_);
    EXPECT_TRUE(coordinator_->Load(state).ok());
    return codes;
  };
  const auto a = JoinNamed(0, 1, "a");
  ASSERT_TRUE(a.ok()) << a.status();
  // It finishes when the cut is open: what it pushed last is not in there.
  ASSERT_EQ(*coordinator_->OpenCut(), 1u);
  ASSERT_TRUE(Finish(0, a->worker_generation()).ok());
  EXPECT_THAT(join_restored(1), testing::ElementsAre(absl::StatusCode::kOk,
                                                     absl::StatusCode::kOk));
  // Between two runs.
  ASSERT_EQ(*coordinator_->OpenCut(), 2u);
  EXPECT_THAT(join_restored(2),
              testing::ElementsAre(absl::StatusCode::kFailedPrecondition,
                                   absl::StatusCode::kOk));
  // In the next one, after a restart of the coordinator.
  ASSERT_TRUE(JoinNamed(0, 1, "b").ok());
  ASSERT_EQ(*coordinator_->OpenCut(), 3u);
  const v1::CoordinatorState state = coordinator_->Save();
  coordinator_.emplace(options_, clock_);
  ASSERT_TRUE(coordinator_->Load(state).ok());
  EXPECT_THAT(join_restored(3),
              testing::ElementsAre(absl::StatusCode::kFailedPrecondition,
                                   absl::StatusCode::kOk));
}

TEST_F(CoordinatorStayTest, ARestartOfALauncherContinuesTheRun) {
  const uint64_t killed = MustJoin(0, 1).worker_generation();
  Define(1);
  ASSERT_EQ(Lease(0, killed)->leases_size(), 1);
  const auto again = Join(0, 1, /*only_if_free=*/false);
  ASSERT_TRUE(again.ok()) << again.status();
  EXPECT_EQ(again->run(), 1u);
  Pass(kLease + absl::Seconds(1));
  EXPECT_EQ(LifeOf(0), v1::WorkerState::LOST);
  EXPECT_EQ(Join(0, 1, /*only_if_free=*/false)->run(), 1u);
}

TEST_F(CoordinatorStayTest, WhatARunPushedInPartIsTheNextOnesFirstPart) {
  const uint64_t killed = MustJoin(0, 1).worker_generation();
  const uint32_t epoch = DefineMine(2);
  EXPECT_GE(epoch, uint32_t{1} << 31);
  ASSERT_EQ(Lease(0, killed)->leases_size(), 1);
  AddPartialPush(0, 0, killed, epoch);
  Pass(kLease + absl::Seconds(1));
  const uint64_t next = MustJoin(0, 1).worker_generation();
  // Of no other phase, and not before it is defined.
  EXPECT_TRUE(absl::IsUnavailable(Lease(0, next).status()));
  EXPECT_TRUE(absl::IsUnavailable(coordinator_->OpenCut().status()));
  EXPECT_EQ(DefineMine(2), epoch);
  const auto first = Lease(0, next);
  ASSERT_TRUE(first.ok()) << first.status();
  ASSERT_EQ(first->push_completions_size(), 1);
  const v1::PushCompletion& completion = first->push_completions(0);
  EXPECT_EQ(completion.worker().worker_generation(), killed);
  EXPECT_EQ(completion.sequence(), 1u);
  ASSERT_EQ(completion.examples_size(), 1);
  EXPECT_EQ(completion.examples(0).end(), 10u);
  // Then all parts, each once.
  auto leased = Lease(0, next, {completion.lease()});
  ASSERT_EQ(leased->leases_size(), 1);
  EXPECT_TRUE(coordinator_->OpenCut().ok());
  leased = Lease(0, next, {leased->leases(0)});
  ASSERT_EQ(leased->leases_size(), 1);
  EXPECT_TRUE(Lease(0, next, {leased->leases(0)})->exhausted());
}

TEST_F(CoordinatorStayTest, TheJobEndsWhenItIsDrainedWithOrWithoutARun) {
  const uint64_t generation = MustJoin(0, 1).worker_generation();
  ASSERT_TRUE(coordinator_->Drain("a test").ok());
  EXPECT_FALSE(ServersEnd());
  EXPECT_TRUE(Beat(0, generation)->draining());
  ASSERT_TRUE(Finish(0, generation).ok());
  EXPECT_TRUE(ServersEnd());
  EXPECT_TRUE(absl::IsFailedPrecondition(Join(0, 1).status()));

  coordinator_.emplace(options_, clock_);
  ServerBeat(0, 2);
  ASSERT_TRUE(coordinator_->Drain("a test").ok());
  EXPECT_TRUE(ServerBeat(0, 2).job_finished());
}

TEST_F(CoordinatorStayTest, ASuccessorOfTheCoordinatorGoesOnInTheRun) {
  MustJoin(0, 1);
  ASSERT_TRUE(
      Finish(0, coordinator_->JobStatus({}).workers(0).worker_generation())
          .ok());
  const uint64_t generation = MustJoin(0, 2).worker_generation();
  const v1::CoordinatorState state = coordinator_->Save();
  coordinator_.emplace(options_, clock_);
  ASSERT_TRUE(coordinator_->Load(state).ok());
  ASSERT_TRUE(coordinator_->CheckNumWorkers().ok());
  coordinator_->ResumeRun();
  EXPECT_TRUE(Beat(0, generation).ok());
  const auto other = Join(1, 2);
  ASSERT_TRUE(other.ok()) << other.status();
  EXPECT_EQ(other->run(), 2u);
}

TEST_F(CoordinatorStayTest, ARunWhoseWorkersDoNotAllComeFails) {
  const uint64_t generation = MustJoin(0, 2).worker_generation();
  Pass(absl::Seconds(60), {{0, generation}});
  const Outcome waits = Arrive("start", 0, generation);
  Pass(absl::Seconds(42), {{0, generation}});
  EXPECT_TRUE(Is(waits, absl::StatusCode::kFailedPrecondition));
  EXPECT_TRUE(Beat(0, generation)->draining());
  ASSERT_TRUE(Finish(0, generation, false, "told to").ok());
  EXPECT_FALSE(ServersEnd());
  EXPECT_EQ(MustJoin(0, 1).run(), 2u);
}

}  // namespace
}  // namespace oarlock::coordinator
