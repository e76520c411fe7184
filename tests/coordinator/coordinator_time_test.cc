// Logical time that counts epochs, workers that wait for each other, and a
// worker whose model is not that of the parameters that the job goes on with.

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdint>
#include <string>

#include "proto/v1/checkpoint.pb.h"
#include "tests/coordinator/coordinator_testing.h"

namespace oarlock::coordinator {
namespace {

using ::testing::HasSubstr;

class TickPerEpochTest : public CoordinatorTest {
 protected:
  TickPerEpochTest() : CoordinatorTest(/*num_workers=*/2, /*num_servers=*/2) {
    options_.tick_per_epoch = true;
    coordinator_.emplace(options_, clock_);
  }

  uint32_t TellEvicted(uint32_t server, uint32_t time) {
    v1::ServerHeartbeatRequest request;
    request.set_server_index(server);
    request.set_server_generation(1);
    request.set_evicted_time(time);
    const auto response = coordinator_->ServerHeartbeat(request);
    EXPECT_TRUE(response.ok()) << response.status();
    return response->logical_time();
  }
  uint32_t Now() { return TellEvicted(0, 0); }
  v1::CheckpointManifest Cut() {
    EXPECT_TRUE(coordinator_->OpenCut().ok());
    v1::CheckpointManifest manifest;
    coordinator_->DescribeCut(&manifest);
    coordinator_->CloseCut();
    return manifest;
  }
};

TEST_F(TickPerEpochTest, AnEpochIsOverWhenAllServersHaveEvicted) {
  const uint64_t a = Register(0), b = Register(1);
  Pass(absl::Seconds(5), {{0, a}, {1, b}});
  EXPECT_EQ(Now(), 0u) << "seconds do not count";
  const Outcome first = Arrive("train/0/trained", 0, a, 50'000, 1);
  EXPECT_EQ(Now(), 0u) << "worker 1 still trains";
  const Outcome second = Arrive("train/0/trained", 1, b, 50'000, 1);
  EXPECT_EQ(TellEvicted(0, 0), 1u);
  EXPECT_EQ(TellEvicted(0, 1), 1u);
  EXPECT_FALSE(first->has_value()) << "server 1 has old rows";
  TellEvicted(1, 1);
  ASSERT_TRUE(first->has_value() && second->has_value());
  EXPECT_TRUE((*first)->ok() && (*second)->ok());
  // Other barriers are no epochs.
  const Outcome other = Arrive("summary", 0, a);
  Arrive("summary", 1, b);
  EXPECT_TRUE(other->has_value());
  EXPECT_EQ(Now(), 1u);
}

TEST_F(TickPerEpochTest, AServerThatStartsAnewEvictsFirst) {
  const uint64_t a = Register(0), b = Register(1);
  TellEvicted(0, 0);
  TellEvicted(1, 0);
  const Outcome first = Arrive("train/0/trained", 0, a, 50'000, 1);
  Arrive("train/0/trained", 1, b, 50'000, 1);
  TellEvicted(1, 1);
  v1::ServerHeartbeatRequest anew;
  anew.set_server_index(1);
  anew.set_server_generation(2);
  ASSERT_TRUE(coordinator_->ServerHeartbeat(anew).ok());
  TellEvicted(0, 1);
  EXPECT_FALSE(first->has_value());
  anew.set_evicted_time(1);
  ASSERT_TRUE(coordinator_->ServerHeartbeat(anew).ok());
  EXPECT_TRUE(first->has_value());
}

TEST_F(TickPerEpochTest, TimeGoesOnFromAnotherJobsCheckpoint) {
  v1::CheckpointManifest loaded;
  loaded.set_logical_time(41);
  coordinator_->BeginWith(loaded);
  EXPECT_EQ(Now(), 41u);
  const uint64_t a = Register(0), b = Register(1);
  Arrive("train/0/trained", 0, a, 50'000, 1);
  Arrive("train/0/trained", 1, b, 50'000, 1);
  EXPECT_EQ(Now(), 42u);
  const v1::CheckpointManifest cut = Cut();
  EXPECT_EQ(cut.logical_time(), 42u);
  EXPECT_EQ(cut.start_time(), 41u);
}

TEST_F(TickPerEpochTest, ATickThatACutMissedIsMadeUpFor) {
  v1::CheckpointManifest manifest;
  manifest.set_cut(3);
  manifest.set_start_time(10);
  manifest.set_logical_time(11);
  for (const char* work : {"train/0", "train/1"}) {
    v1::PhaseCoverage* const coverage = manifest.add_works();
    coverage->set_work(work);
    coverage->set_done(true);
  }
  coordinator_->Restore(manifest);
  EXPECT_EQ(Now(), 12u);
}

TEST_F(TickPerEpochTest, ARunThatCountedSecondsIsNotFollowedByOneThatStands) {
  v1::CheckpointManifest manifest;
  manifest.set_cut(3);
  manifest.set_logical_time(500);
  v1::PhaseCoverage* const coverage = manifest.add_works();
  coverage->set_work("train/0");
  coverage->set_done(true);
  coordinator_->Restore(manifest);
  EXPECT_EQ(Now(), 500u);
  const uint64_t a = Register(0), b = Register(1);
  Arrive("train/1/trained", 0, a, 50'000, 2);
  Arrive("train/1/trained", 1, b, 50'000, 2);
  EXPECT_EQ(Now(), 501u);
}

TEST_F(CoordinatorTest, WorkersThatWaitForEachOtherEndTheJob) {
  const uint64_t a = Register(0), b = Register(1), c = Register(2);
  Arrive("train/1", 0, a);
  Arrive("train/1", 1, b);
  Pass(absl::Seconds(1), {{0, a}, {1, b}, {2, c}});
  EXPECT_FALSE(coordinator_->Job().ending) << "worker 2 is at work";
  const Outcome third = Arrive("summary", 2, c);
  coordinator_->CheckDeadlines();
  EXPECT_TRUE(coordinator_->Job().failed);
  EXPECT_THAT(coordinator_->Job().reason,
              HasSubstr("the workers wait for each other: worker 0 at "
                        "'train/1', worker 1 at 'train/1', worker 2 at "
                        "'summary'; start all workers"));
  ASSERT_TRUE(third->has_value());
  EXPECT_FALSE((*third)->ok());
}

TEST_F(CoordinatorTest, WorkersThatWaitAtOneBarrierDoNot) {
  const uint64_t a = Register(0), b = Register(1), c = Register(2);
  Arrive("train/0", 0, a);
  Arrive("train/0", 1, b);
  Arrive("train/0", 2, c);
  // Passed: worker 2 has gone on to the next one, the others will.
  Arrive("train/0/trained", 2, c);
  Pass(absl::Seconds(1), {{0, a}, {1, b}, {2, c}});
  EXPECT_FALSE(coordinator_->Job().ending);
}

class GoesOnTest : public CoordinatorTest {
 protected:
  static v1::JobDescription Model(const std::string& model, bool given) {
    v1::JobDescription description;
    v1::JobDescription::Flag* flag = description.add_flags();
    flag->set_name("model");
    flag->set_value(model);
    flag->set_given(given);
    flag->set_defines_model(true);
    // This may differ.
    flag = description.add_flags();
    flag->set_name("dropout");
    flag->set_value(model == "lr" ? "0" : ".5");
    return description;
  }
  absl::Status RegisterWith(const v1::JobDescription& description) {
    v1::RegisterWorkerRequest request;
    *request.mutable_description() = description;
    return coordinator_->RegisterWorker(request).status();
  }
};

TEST_F(GoesOnTest, AResumedJobHasTheModelThatItHad) {
  v1::CheckpointManifest manifest;
  *manifest.mutable_description() = Model("deepfm", true);
  coordinator_->Restore(manifest);
  const absl::Status refused = RegisterWith(Model("lr", true));
  EXPECT_EQ(refused.code(), absl::StatusCode::kFailedPrecondition);
  EXPECT_EQ(refused.message(),
            "worker 0 has --model lr, and the parameters with which the job "
            "goes on were trained with --model deepfm; give --model deepfm");
  EXPECT_TRUE(RegisterWith(Model("deepfm", false)).ok());
}

TEST_F(GoesOnTest, WhoLoadsParametersMaySayThatTheyMeanSomethingElse) {
  v1::CheckpointManifest loaded;
  *loaded.mutable_description() = Model("deepfm", true);
  coordinator_->BeginWith(loaded);
  EXPECT_EQ(RegisterWith(Model("lr", false)).code(),
            absl::StatusCode::kFailedPrecondition);
  EXPECT_TRUE(RegisterWith(Model("lr", true)).ok());
}

TEST_F(GoesOnTest, WhatSaysNothingIsNotCompared) {
  coordinator_->Restore(v1::CheckpointManifest());
  EXPECT_TRUE(RegisterWith(Model("lr", true)).ok());
}

}  // namespace
}  // namespace oarlock::coordinator
