#include "coordinator/coordinator.h"

#include <gtest/gtest.h>

#include <atomic>
#include <cstdint>
#include <string>
#include <thread>
#include <vector>

#include "absl/status/status.h"
#include "absl/synchronization/mutex.h"
#include "absl/time/time.h"
#include "base/clock.h"
#include "tests/coordinator/coordinator_testing.h"

namespace oarlock::coordinator {
namespace {

TEST_F(CoordinatorTest, LogicalTimeCountsTicksInWhichTheCoordinatorRan) {
  EXPECT_EQ(ServerBeat(0).logical_time(), 0u);
  clock_.Advance(absl::Milliseconds(999));
  coordinator_->CheckDeadlines();
  EXPECT_EQ(ServerBeat(0).logical_time(), 0u);
  clock_.Advance(absl::Milliseconds(2001));
  coordinator_->CheckDeadlines();
  EXPECT_EQ(ServerBeat(0).logical_time(), 3u);
  // Stood still: nothing ages meanwhile.
  clock_.Advance(absl::Hours(1));
  coordinator_->CheckDeadlines();
  EXPECT_EQ(ServerBeat(0).logical_time(), 3u);
  clock_.Advance(absl::Seconds(1));
  coordinator_->CheckDeadlines();
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

TEST_F(CoordinatorTest, RepeatedRegistrationIsAnsweredAsBefore) {
  const auto response = RegisterAs(0, 77);
  ASSERT_TRUE(response.ok());
  ASSERT_TRUE(coordinator_->OpenCut().ok());
  const auto repeated = RegisterAs(0, 77);
  ASSERT_TRUE(repeated.ok()) << repeated.status();
  EXPECT_EQ(repeated->SerializeAsString(), response->SerializeAsString());
  EXPECT_TRUE(Beat(0, response->worker_generation()).ok());
  // Another process.
  EXPECT_GT(RegisterAs(0, 78)->worker_generation(),
            response->worker_generation());
}

TEST_F(CoordinatorTest, RegistrationThatIsRepeatedLateFencesAndRevivesNobody) {
  ASSERT_TRUE(RegisterAs(0, 77).ok());
  const uint64_t successor = RegisterAs(0, 78)->worker_generation();
  for (int incarnation = 1; incarnation <= 2; ++incarnation) {
    EXPECT_EQ(RegisterAs(0, 77).status().code(), absl::StatusCode::kAborted);
    EXPECT_TRUE(Beat(0, successor).ok());
    const v1::CoordinatorState state = coordinator_->Save();
    coordinator_.emplace(options_, clock_);
    ASSERT_TRUE(coordinator_->Load(state).ok());
  }
  Pass(kLease + absl::Seconds(1));
  ASSERT_EQ(LifeOf(0), v1::WorkerState::LOST);
  EXPECT_EQ(RegisterAs(0, 78).status().code(), absl::StatusCode::kAborted);
  EXPECT_EQ(LifeOf(0), v1::WorkerState::LOST);
  EXPECT_TRUE(RegisterAs(0, 79).ok());
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

TEST_F(CoordinatorTest, MembersOfAnEpochDoNotWaitForASuccessorInAnEarlierOne) {
  const uint64_t a = Register(0);
  const uint64_t b = Register(1);
  Register(2);
  Pass(kLease + absl::Seconds(1), {{0, a}, {1, b}});
  ASSERT_EQ(LifeOf(2), v1::WorkerState::LOST);
  for (const char* name : {"train/0", "train/0/trained", "train/1"}) {
    Arrive(name, 0, a);
    ASSERT_TRUE(Is(Arrive(name, 1, b), absl::StatusCode::kOk)) << name;
  }
  const auto members = Arrive("train/1/members", 0, a);
  const uint64_t successor = Register(2);
  EXPECT_FALSE(members->has_value());
  Arrive("train/1/members", 1, b);
  EXPECT_TRUE(Is(members, absl::StatusCode::kOk));
  // Behind the epoch it is waited for.
  const auto behind = Arrive("train/1/trained", 0, a);
  Arrive("train/1/trained", 1, b);
  EXPECT_FALSE(behind->has_value());
  Arrive("train/1/trained", 2, successor);
  EXPECT_TRUE(Is(behind, absl::StatusCode::kOk));
}

TEST_F(CoordinatorTest, MembersOfAnEpochWaitForASuccessorThatBeginsWithIt) {
  const uint64_t a = Register(0);
  const uint64_t b = Register(1);
  Register(2);
  Pass(kLease + absl::Seconds(1), {{0, a}, {1, b}});
  for (const char* name : {"train/0", "train/0/trained"}) {
    Arrive(name, 0, a);
    ASSERT_TRUE(Is(Arrive(name, 1, b), absl::StatusCode::kOk)) << name;
  }
  const uint64_t successor = Register(2);
  for (const char* name : {"train/1", "train/1/members"}) {
    Arrive(name, 0, a);
    const auto waits = Arrive(name, 1, b);
    EXPECT_FALSE(waits->has_value()) << name;
    Arrive(name, 2, successor);
    EXPECT_TRUE(Is(waits, absl::StatusCode::kOk)) << name;
  }
}

TEST_F(CoordinatorTest, TimeInWhichTheCoordinatorStoodStillCountsOnNobody) {
  const uint64_t a = Register(0);
  clock_.Advance(absl::Minutes(5));
  coordinator_->CheckDeadlines();
  EXPECT_EQ(LifeOf(0), v1::WorkerState::ALIVE);
  EXPECT_TRUE(Beat(0, a).ok());
  Pass(absl::Seconds(11));
  EXPECT_EQ(LifeOf(0), v1::WorkerState::LOST);
}

TEST_F(CoordinatorTest, LeasesAndTicksGoOnWhereTheClockIsSetBack) {
  const uint64_t a = Register(0);
  Pass(absl::Seconds(5), {{0, a}});
  const uint32_t ticks = ServerBeat(0).logical_time();
  clock_.Advance(-absl::Hours(1));
  // Between the step and the next look at the deadlines.
  EXPECT_TRUE(Beat(0, a).ok());
  coordinator_->CheckDeadlines();
  EXPECT_EQ(LifeOf(0), v1::WorkerState::ALIVE);
  Pass(absl::Seconds(5), {{0, a}});
  EXPECT_EQ(LifeOf(0), v1::WorkerState::ALIVE);
  EXPECT_EQ(ServerBeat(0).logical_time(), ticks + 5);
  Pass(absl::Seconds(11));
  EXPECT_EQ(LifeOf(0), v1::WorkerState::LOST);
  // Those who never registered are not waited for for another hour.
  Pass(options_.start_timeout);
  EXPECT_TRUE(ServerBeat(0).failed());
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

TEST_F(CoordinatorTest, WhoHasTrainedItsShareHasArrivedWhetherItLivesOrNot) {
  const uint64_t a = Register(0);
  const uint64_t b = Register(1);
  const uint64_t c = Register(2);
  const auto trained_epochs_of = [&](uint32_t worker) {
    v1::RegisterWorkerRequest request;
    request.set_worker_index(worker);
    return coordinator_->RegisterWorker(request)->own_trained_epochs();
  };
  const auto dead = Arrive("train/1/trained", 0, a, 50'000, 2);
  EXPECT_EQ(trained_epochs_of(0), 2u);
  EXPECT_TRUE(Is(dead, absl::StatusCode::kAborted));
  // Its successor is where the others will be, and is not waited for.
  const auto waits = Arrive("train/1/trained", 1, b, 50'000, 2);
  EXPECT_FALSE(waits->has_value());
  const auto last = Arrive("train/1/trained", 2, c, 50'000, 2);
  EXPECT_TRUE(Is(waits, absl::StatusCode::kOk));
  EXPECT_TRUE(Is(last, absl::StatusCode::kOk));
  // One that dies in its share of the next epoch begins there.
  EXPECT_EQ(trained_epochs_of(1), 2u);
  // A process that takes the coordinator's place knows it.
  Coordinator successor(options_, clock_);
  ASSERT_TRUE(successor.Load(coordinator_->Save()).ok());
  v1::RegisterWorkerRequest request;
  request.set_worker_index(2);
  EXPECT_EQ(successor.RegisterWorker(request)->own_trained_epochs(), 2u);
}

TEST_F(CoordinatorTest, ABarrierWaitsForSomebodyWhoLives) {
  const uint64_t a = Register(0);
  Register(1);
  Register(2);
  const auto waits = Arrive("train/0/trained", 0, a, 50'000, 1);
  // All leases run out at once.
  Pass(absl::Seconds(11), {});
  EXPECT_EQ(LifeOf(2), v1::WorkerState::LOST);
  EXPECT_TRUE(Is(waits, absl::StatusCode::kAborted));
  EXPECT_EQ(coordinator_->Save().barriers().passed_size(), 0);
  EXPECT_EQ(coordinator_->Save().barriers().open_size(), 1);
}

TEST_F(CoordinatorTest, ArrivalForGoodIsKeptWithTheState) {
  const uint64_t a = Register(0);
  Register(1);
  Register(2);
  Arrive("train/0/trained", 0, a, 50'000, 1);
  Coordinator successor(options_, clock_);
  ASSERT_TRUE(successor.Load(coordinator_->Save()).ok());
  v1::RegisterWorkerRequest request;
  ASSERT_TRUE(successor.RegisterWorker(request).ok());
  const v1::BarriersState kept = successor.Save().barriers();
  ASSERT_EQ(kept.open_size(), 1);
  EXPECT_EQ(kept.open(0).workers_size(), 1);
  EXPECT_EQ(kept.open(0).for_good_size(), 1);
  // The incarnation that waited is gone.
  EXPECT_EQ(kept.open(0).waiting_size(), 0);
  EXPECT_EQ(coordinator_->Save().barriers().open(0).waiting_size(), 1);
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

// Many workers at once, under tsan too: nobody passes a barrier before the
// last one has come.
TEST(CoordinatorConcurrencyTest, ThreadsMeetAtEveryBarrier) {
  constexpr uint32_t kWorkers = 4;
  constexpr int kBarriers = 50;
  CoordinatorOptions options;
  options.num_workers = kWorkers;
  const FakeClock clock;
  Coordinator coordinator(options, clock);
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

TEST_F(CoordinatorTest, WhoeverSplitsRangesByItselfIsToldWhatIsCovered) {
  const uint64_t generation = Register(0);
  v1::MarkCutRequest mark;
  mark.set_worker_generation(generation);
  mark.set_cut(1);
  v1::TrainedExamples* const trained = mark.add_trained();
  trained->set_phase_name("train/0");
  trained->add_ranges()->set_end(30);
  trained->add_ranges()->set_begin(30);
  trained->mutable_ranges(1)->set_end(50);
  ASSERT_TRUE(coordinator_->MarkCut(mark).ok());
  v1::DefinePhaseRequest request;
  request.set_phase_name("train/0");
  for (int time = 0; time < 2; ++time) {
    const auto defined = coordinator_->DefinePhase(request);
    ASSERT_TRUE(defined.ok()) << defined.status();
    ASSERT_EQ(defined->covered_size(), 1);
    EXPECT_EQ(defined->covered(0).begin(), 0u);
    EXPECT_EQ(defined->covered(0).end(), 50u);
  }
  request.set_phase_name("train/1");
  EXPECT_EQ(coordinator_->DefinePhase(request)->covered_size(), 0);
}

TEST_F(CoordinatorTest, ACheckpointKeepsTheOrderOfAnEpochThatIsNotOver) {
  v1::MarkCutRequest mark;
  mark.set_worker_generation(Register(0));
  mark.set_cut(1);
  v1::TrainedExamples* const trained = mark.add_trained();
  trained->set_phase_name("train/0");
  trained->add_ranges()->set_end(30);
  v1::DefinePhaseRequest request;
  request.set_phase_name("train/0");
  request.set_data_order("--shuffle global");
  ASSERT_TRUE(coordinator_->DefinePhase(request).ok());
  ASSERT_EQ(*coordinator_->OpenCut(), 1u);
  ASSERT_TRUE(coordinator_->MarkCut(mark).ok());
  v1::CheckpointManifest manifest;
  coordinator_->DescribeCut(&manifest);
  Coordinator resumed(options_, clock_);
  resumed.Restore(manifest);
  request.set_data_order("--shuffle local");
  EXPECT_TRUE(
      absl::IsFailedPrecondition(resumed.DefinePhase(request).status()));
  request.set_data_order("--shuffle global");
  EXPECT_TRUE(resumed.DefinePhase(request).ok());
}

TEST_F(CoordinatorTest, APhaseOfWhichNothingIsLeftIsDone) {
  v1::PhaseProgress bad;
  bad.set_phase("train");
  bad.set_bad_lines(2);
  for (const uint64_t trained : {97, 98, 100}) {
    coordinator_.emplace(options_, clock_);
    v1::MarkCutRequest mark;
    mark.set_worker_generation(Register(0));
    mark.set_cut(1);
    v1::TrainedExamples* const examples = mark.add_trained();
    examples->set_phase_name("train/0");
    examples->add_ranges()->set_end(trained);
    v1::DefinePhaseRequest request;
    request.set_phase_name("train/0");
    request.set_num_examples(100);
    ASSERT_TRUE(coordinator_->DefinePhase(request).ok());
    v1::HeartbeatRequest beat;
    beat.set_worker_generation(mark.worker_generation());
    beat.set_report(1);
    *beat.add_progress() = bad;
    ASSERT_TRUE(coordinator_->Heartbeat(beat).ok());
    ASSERT_EQ(*coordinator_->OpenCut(), 1u);
    ASSERT_TRUE(coordinator_->MarkCut(mark).ok());
    v1::CheckpointManifest manifest;
    coordinator_->DescribeCut(&manifest);
    ASSERT_EQ(manifest.works_size(), 1);
    EXPECT_EQ(manifest.works(0).done(), trained != 97) << trained;
    Coordinator resumed(options_, clock_);
    resumed.Restore(manifest);
    v1::RegisterWorkerRequest registration;
    EXPECT_EQ(resumed.RegisterWorker(registration)->trained_epochs(),
              trained != 97 ? 1u : 0u);
  }
}

}  // namespace
}  // namespace oarlock::coordinator
