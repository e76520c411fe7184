// How a job ends, and who gets a lost worker's ranges.

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdint>
#include <string>

#include "absl/time/time.h"
#include "coordinator/coordinator.h"
#include "tests/coordinator/coordinator_testing.h"

namespace oarlock::coordinator {
namespace {

using ::testing::HasSubstr;

using CoordinatorJobTest = CoordinatorTest;

TEST_F(CoordinatorJobTest, JobIsOverWhenAllWorkersHaveFinished) {
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

TEST_F(CoordinatorJobTest, WorkerThatHasFinishedDoesNotComeBack) {
  ASSERT_TRUE(Finish(0, Register(0)).ok());
  v1::RegisterWorkerRequest request;
  EXPECT_EQ(coordinator_->RegisterWorker(request).status().code(),
            absl::StatusCode::kFailedPrecondition);
}

TEST_F(CoordinatorJobTest, WorkerThatGivesUpFailsTheJob) {
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

TEST_F(CoordinatorJobTest, LostWorkerWithoutSuccessorFailsTheJob) {
  const uint64_t a = Register(0);
  Register(1);
  Pass(absl::Seconds(11 + 20), {{0, a}});
  EXPECT_FALSE(coordinator_->Job().failed);
  Pass(absl::Seconds(1), {{0, a}});
  EXPECT_TRUE(coordinator_->Job().failed);
  EXPECT_THAT(coordinator_->Job().reason, HasSubstr("worker 1 (host h"));
}

TEST_F(CoordinatorJobTest, WorkerThatNeverRegistersFailsTheJob) {
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

TEST_F(CoordinatorJobTest, DrainWaitsForWorkersButNotForEver) {
  const uint64_t a = Register(0);
  ASSERT_TRUE(coordinator_->Drain("enough").ok());
  EXPECT_TRUE(Beat(0, a)->draining());
  EXPECT_FALSE(Beat(0, a)->failed());
  EXPECT_FALSE(coordinator_->Job().over);
  Pass(absl::Seconds(4), {{0, a}});
  EXPECT_TRUE(coordinator_->Job().over);
  EXPECT_FALSE(coordinator_->Job().failed);
  EXPECT_THAT(coordinator_->Job().reason, HasSubstr("enough"));
}

TEST_F(CoordinatorJobTest, AnEndWithoutWorkersWaitsForNone) {
  Register(0);
  coordinator_->Stop("asked to");
  Pass(absl::Milliseconds(200), {});
  EXPECT_FALSE(coordinator_->Job().over);
  coordinator_->EndWithoutWorkers();
  Pass(absl::Milliseconds(200), {});
  EXPECT_TRUE(coordinator_->Job().over);
}

TEST_F(CoordinatorJobTest, LostWorkersRangesAreDoneByOthers) {
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

class EvaluationOfAJobTest : public CoordinatorTest {
 protected:
  EvaluationOfAJobTest() : CoordinatorTest(/*num_workers=*/2) {
    phase_name_ = "test/0";
  }

  absl::Status Report(uint32_t worker, uint64_t generation, uint64_t report,
                      uint64_t examples) {
    v1::HeartbeatRequest request;
    request.set_worker_index(worker);
    request.set_worker_generation(generation);
    request.set_report(report);
    v1::PhaseProgress* const progress = request.add_progress();
    progress->set_phase("test");
    progress->set_examples(examples);
    return coordinator_->Heartbeat(request).status();
  }
  uint64_t Predicted() {
    return coordinator_->JobStatus({}).phases(0).progress().examples();
  }
};

TEST_F(EvaluationOfAJobTest, WhatALostWorkerHasPredictedCountsOnce) {
  const uint64_t a = Register(0);
  const uint64_t b = Register(1);
  Define(2);
  const auto lost = Lease(0, a);
  const auto own = Lease(1, b);
  ASSERT_TRUE(Report(0, a, 1, 70).ok());
  ASSERT_TRUE(Report(1, b, 1, 100).ok());
  // It counts at once, as far as anybody sees.
  EXPECT_EQ(Predicted(), 170u);
  const uint64_t successor = Register(0);
  EXPECT_EQ(Predicted(), 100u);
  EXPECT_EQ(Report(0, a, 2, 30).code(), absl::StatusCode::kAborted);
  EXPECT_EQ(Lease(0, a, {lost->leases(0)}).status().code(),
            absl::StatusCode::kAborted);
  EXPECT_EQ(Predicted(), 100u);
  Pass(absl::Seconds(3), {{0, successor}, {1, b}});
  const auto taken = Lease(1, b, {own->leases(0)});
  ASSERT_EQ(taken->ranges_size(), 1);
  EXPECT_EQ(taken->ranges(0).begin(), lost->ranges(0).begin());
  ASSERT_TRUE(Report(1, b, 2, 100).ok());
  EXPECT_TRUE(Lease(1, b, {taken->leases(0)})->exhausted());
  EXPECT_EQ(Predicted(), 200u);
}

TEST_F(EvaluationOfAJobTest, WhatWasReportedDoneStaysWhenItsWorkerDies) {
  const uint64_t a = Register(0);
  Define(2);
  const auto first = Lease(0, a);
  const auto second = Lease(0, a);
  ASSERT_TRUE(Report(0, a, 1, 150).ok());
  // Part of the report may be of the other one.
  ASSERT_TRUE(Lease(0, a, {first->leases(0)}).ok());
  ASSERT_TRUE(Lease(0, a, {second->leases(0)})->exhausted());
  ASSERT_TRUE(Report(0, a, 2, 0).ok());
  Register(0);
  EXPECT_EQ(Predicted(), 150u);
}

TEST_F(EvaluationOfAJobTest, WhatAWorkerThatFinishesHasPredictedStays) {
  const uint64_t a = Register(0);
  Define(1);
  ASSERT_EQ(Lease(0, a)->ranges_size(), 1);
  ASSERT_TRUE(Report(0, a, 1, 100).ok());
  ASSERT_TRUE(Finish(0, a).ok());
  EXPECT_EQ(Predicted(), 100u);
}

TEST_F(TwoServerCoordinatorTest, ARangeIsLeasedAgainOnlyWhenAllServersKnow) {
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
  // The response reaches server 1, but it has not said that it acts by it.
  ServerBeat(1);
  EXPECT_EQ(Lease(1, b)->ranges_size(), 0);
  ServerBeat(1);
  EXPECT_EQ(Lease(1, b)->ranges_size(), 1);
}

TEST_F(TwoServerCoordinatorTest, EvaluationDoesNotWaitForASilentServer) {
  phase_name_ = "test/0";
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
  const uint64_t generations[] = {Register(0), Register(1)};
  for (uint32_t worker : {0, 1}) {
    ASSERT_TRUE(Finish(worker, generations[worker]).ok());
    ASSERT_TRUE(Beat(worker, generations[worker]).ok());
  }
  EXPECT_FALSE(coordinator_->OthersKnowItIsOver(ServerIndex(0)));
  // The response may be lost.
  EXPECT_TRUE(ServerBeat(1).job_finished());
  EXPECT_FALSE(coordinator_->OthersKnowItIsOver(ServerIndex(0)));
  ASSERT_TRUE(Leave(1).ok());
  EXPECT_TRUE(coordinator_->OthersKnowItIsOver(ServerIndex(0)));
  EXPECT_FALSE(coordinator_->Job().failed);
  // An earlier heartbeat that comes late.
  ServerBeat(1);
  EXPECT_TRUE(coordinator_->OthersKnowItIsOver(ServerIndex(0)));
}

TEST_F(TwoServerCoordinatorTest, CoordinatorStaysUntilWorkersKnowOrAreGone) {
  ServerBeat(0);
  const uint64_t generations[] = {Register(0), Register(1)};
  ASSERT_TRUE(Finish(0, generations[0]).ok());
  ASSERT_TRUE(Finish(1, generations[1]).ok());
  EXPECT_FALSE(coordinator_->OthersKnowItIsOver(ServerIndex(0)));
  ASSERT_TRUE(Beat(0, generations[0]).ok());
  EXPECT_FALSE(coordinator_->OthersKnowItIsOver(ServerIndex(0)));
  // Worker 1 asks again: the response was lost.
  ASSERT_TRUE(Finish(1, generations[1]).ok());
  EXPECT_FALSE(coordinator_->OthersKnowItIsOver(ServerIndex(0)));
  clock_.Advance(kLease);
  EXPECT_TRUE(coordinator_->OthersKnowItIsOver(ServerIndex(0)));
}

TEST_F(TwoServerCoordinatorTest, ServerThatLeavesFailsTheJob) {
  ServerBeat(1);
  ASSERT_TRUE(Leave(1).ok());
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

TEST_F(CoordinatorJobTest, WorkersOfARunShareTheirSettings) {
  const auto register_with =
      [&](Coordinator& coordinator, uint32_t worker,
          const std::vector<std::pair<std::string, std::string>>& settings) {
        v1::RegisterWorkerRequest request;
        request.set_worker_index(worker);
        for (const auto& [name, value] : settings) {
          v1::JobDescription::Flag* const flag = request.add_settings();
          flag->set_name(name);
          flag->set_value(value);
        }
        return coordinator.RegisterWorker(request).status();
      };
  ASSERT_TRUE(register_with(*coordinator_, 0, {{"mode", "sync"}}).ok());
  // As long as it is the only one it may change its mind.
  ASSERT_TRUE(register_with(*coordinator_, 0, {{"mode", "async"}}).ok());
  const absl::Status refused =
      register_with(*coordinator_, 1, {{"seed", "1"}, {"mode", "sync"}});
  EXPECT_EQ(refused.code(), absl::StatusCode::kFailedPrecondition);
  EXPECT_EQ(refused.message(),
            "worker 1 has --mode sync, worker 0 has --mode async; start all "
            "workers of a job with the same");
  // A flag that only one of them names is not compared; then it is.
  ASSERT_TRUE(
      register_with(*coordinator_, 1, {{"mode", "async"}, {"seed", "1"}}).ok());
  EXPECT_EQ(register_with(*coordinator_, 0, {{"seed", "2"}}).code(),
            absl::StatusCode::kFailedPrecondition);
  EXPECT_TRUE(register_with(*coordinator_, 2, {}).ok());
  // A coordinator that was started again remembers.
  Coordinator successor(options_, clock_);
  ASSERT_TRUE(successor.Load(coordinator_->Save()).ok());
  EXPECT_EQ(register_with(successor, 0, {{"mode", "sync"}}).code(),
            absl::StatusCode::kFailedPrecondition);
  std::vector<std::pair<std::string, std::string>> many;
  for (int i = 0; i < 257; ++i) many.emplace_back(absl::StrCat("f", i), "1");
  EXPECT_EQ(register_with(*coordinator_, 0, many).code(),
            absl::StatusCode::kInvalidArgument);
  // The next run may have others.
  successor.BeginRun();
  EXPECT_TRUE(register_with(successor, 0, {{"mode", "sync"}}).ok());
}

TEST_F(CoordinatorJobTest, AWorkerThatWantsAFreeIndexFencesNobody) {
  const uint64_t generation = Register(0);
  v1::RegisterWorkerRequest request;
  request.set_worker_index(0);
  request.set_only_if_free(true);
  const absl::Status refused = coordinator_->RegisterWorker(request).status();
  EXPECT_EQ(refused.code(), absl::StatusCode::kAlreadyExists);
  EXPECT_THAT(std::string(refused.message()),
              testing::HasSubstr("worker 0 (host h, process 100) is at work"));
  EXPECT_TRUE(Beat(0, generation).ok());
  request.set_worker_index(1);
  EXPECT_TRUE(coordinator_->RegisterWorker(request).ok());
}

TEST_F(CoordinatorJobTest, WhatTheJobTrainsIsReportedAndKept) {
  v1::JobStatusRequest ask;
  ask.set_with_description(true);
  Register(0);
  EXPECT_FALSE(coordinator_->JobStatus(ask).has_description());
  v1::RegisterWorkerRequest request;
  request.set_worker_index(1);
  for (const char* model : {"lr", "deepfm"}) {
    request.mutable_description()->clear_flags();
    v1::JobDescription::Flag* const flag =
        request.mutable_description()->add_flags();
    flag->set_name("model");
    flag->set_value(model);
    ASSERT_TRUE(coordinator_->RegisterWorker(request).ok());
  }
  // One that does not say changes nothing.
  Register(2);
  const std::string expected = request.description().SerializeAsString();
  const auto reported = [&](const Coordinator& coordinator) {
    return coordinator.JobStatus(ask).description().SerializeAsString();
  };
  EXPECT_EQ(reported(*coordinator_), expected);
  EXPECT_FALSE(coordinator_->JobStatus({}).has_description());
  v1::CheckpointManifest manifest;
  coordinator_->DescribeCut(&manifest);
  Coordinator resumed(options_, clock_);
  resumed.Restore(manifest);
  EXPECT_EQ(reported(resumed), expected);
  Coordinator successor(options_, clock_);
  ASSERT_TRUE(successor.Load(coordinator_->Save()).ok());
  EXPECT_EQ(reported(successor), expected);
}

TEST_F(CoordinatorJobTest, DescriptionBeyondItsLimitsIsRefused) {
  v1::RegisterWorkerRequest request;
  request.mutable_description()->add_flags()->set_value(
      std::string(64 << 10, 'x'));
  const absl::Status large = coordinator_->RegisterWorker(request).status();
  EXPECT_EQ(large.code(), absl::StatusCode::kInvalidArgument);
  EXPECT_THAT(std::string(large.message()), HasSubstr("legal are up to 256"));
  request.mutable_description()->clear_flags();
  for (int i = 0; i < 257; ++i) request.mutable_description()->add_flags();
  EXPECT_EQ(coordinator_->RegisterWorker(request).status().code(),
            absl::StatusCode::kInvalidArgument);
}

}  // namespace
}  // namespace oarlock::coordinator
