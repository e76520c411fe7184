// What becomes of the ranges of a worker that died in the middle of training.

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdint>
#include <string>
#include <thread>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "absl/time/time.h"
#include "coordinator/coordinator.h"
#include "proto/v1/checkpoint.pb.h"
#include "tests/coordinator/coordinator_testing.h"

namespace oarlock::coordinator {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

// Two workers, two servers, a phase of two ranges.
class CoordinatorDeathsTest : public TwoServerCoordinatorTest {
 protected:
  CoordinatorDeathsTest() {
    ServerBeat(0);
    ServerBeat(1);
    v1::DefinePhaseRequest request;
    request.set_phase_name(phase_name_);
    for (uint64_t begin : {0, 100}) {
      v1::DataRange* const range = request.add_ranges();
      range->set_begin(begin);
      range->set_end(begin + 100);
    }
    EXPECT_TRUE(coordinator_->DefinePhase(request).ok());
  }

  void BeatAll(int times = 2) {
    for (; times > 0; --times) {
      ServerBeat(0);
      ServerBeat(1);
    }
  }
  // Server 0 has applied one of the two messages of a push of [10, 30).
  void ApplyAPushPartly(uint64_t generation) {
    v1::WorkerLedger& ledger = ledgers_[0].emplace_back();
    ledger.mutable_worker()->set_worker_generation(generation);
    ledger.set_highest(1);
    v1::PushRecord* const push = ledger.add_pushes();
    push->set_sequence(1);
    push->add_examples()->set_begin(10);
    push->mutable_examples(0)->set_end(30);
    *push->add_dense_examples() = push->examples(0);
    push->set_message_count(2);
    push->add_messages(1);
  }
  std::vector<uint64_t> ForgottenOf(uint32_t worker) {
    std::vector<uint64_t> generations;
    const v1::ServerHeartbeatResponse response = ServerBeat(0);
    for (const v1::WorkerIncarnation& forgotten : response.forgotten()) {
      if (forgotten.worker_index() == worker) {
        generations.push_back(forgotten.worker_generation());
      }
    }
    return generations;
  }
  absl::Status MarkCut(uint32_t worker, uint64_t generation, uint64_t cut) {
    v1::MarkCutRequest request;
    request.set_worker_index(worker);
    request.set_worker_generation(generation);
    request.set_cut(cut);
    return coordinator_->MarkCut(request);
  }
  std::string Covered() {
    v1::CheckpointManifest manifest;
    coordinator_->DescribeCut(&manifest);
    std::string text;
    for (const v1::PhaseCoverage& coverage : manifest.works()) {
      absl::StrAppend(&text, coverage.work());
      for (const v1::DataRange& range : coverage.covered()) {
        absl::StrAppend(&text, " ", range.begin(), "-", range.end());
      }
    }
    return text;
  }
};

TEST_F(CoordinatorDeathsTest, RangesWaitForTheLedgerOfAServerThatIsAway) {
  const uint64_t a = Register(0);
  const uint64_t b = Register(1);
  ASSERT_EQ(Lease(0, a)->ranges_size(), 1);
  silent_[1] = true;
  const uint64_t successor = Register(0);
  ASSERT_EQ(Lease(1, b)->ranges_size(), 1);
  Pass(absl::Seconds(30), {{0, successor}, {1, b}});
  EXPECT_EQ(Lease(1, b)->ranges_size(), 0);
  // It comes back as another incarnation, asks, answers.
  versions_[1] = 0;
  wanted_[1].clear();
  ASSERT_EQ(ServerBeat(1, /*generation=*/2).wanted_ledgers_size(), 1);
  EXPECT_EQ(Lease(1, b)->ranges_size(), 0);
  EXPECT_EQ(ServerBeat(1, 2).wanted_ledgers_size(), 0);
  EXPECT_EQ(Lease(1, b)->ranges_size(), 1);
}

TEST_F(CoordinatorDeathsTest, AServerThatWasRestartedIsAskedAgain) {
  const uint64_t a = Register(0);
  const uint64_t b = Register(1);
  ASSERT_EQ(Lease(0, a)->ranges_size(), 1);
  Register(0);
  ASSERT_EQ(Lease(1, b)->ranges_size(), 1);
  ServerBeat(1);
  ServerBeat(1);
  versions_[1] = 0;
  wanted_[1].clear();
  ServerBeat(1, /*generation=*/2);
  ServerBeat(0);
  ServerBeat(0);
  EXPECT_EQ(Lease(1, b)->ranges_size(), 0);
  ServerBeat(1, 2);
  EXPECT_EQ(Lease(1, b)->ranges_size(), 1);
}

TEST_F(CoordinatorDeathsTest, ALedgerFromBeforeTheFenceIsNotBelieved) {
  const uint64_t a = Register(0);
  const uint64_t b = Register(1);
  ASSERT_EQ(Lease(0, a)->ranges_size(), 1);
  Register(0);
  ASSERT_EQ(Lease(1, b)->ranges_size(), 1);
  ServerBeat(0);
  ServerBeat(0);
  v1::ServerHeartbeatRequest request;
  request.set_server_index(1);
  request.set_server_generation(1);
  request.set_workers_version(versions_[1]);
  request.add_ledgers()->mutable_worker()->set_worker_generation(a);
  const auto response = coordinator_->ServerHeartbeat(request);
  ASSERT_EQ(response->wanted_ledgers_size(), 1);
  EXPECT_EQ(Lease(1, b)->ranges_size(), 0);
  request.set_workers_version(response->workers_version());
  EXPECT_EQ(coordinator_->ServerHeartbeat(request)->wanted_ledgers_size(), 0);
  EXPECT_EQ(Lease(1, b)->ranges_size(), 1);
}

TEST_F(CoordinatorDeathsTest, APartialPushIsCompletedBeforeTheEpochIsOver) {
  const uint64_t a = Register(0);
  const uint64_t b = Register(1);
  ASSERT_EQ(Lease(0, a)->ranges_size(), 1);
  ApplyAPushPartly(a);
  Register(0);
  EXPECT_TRUE(absl::IsUnavailable(coordinator_->OpenCut().status()));
  BeatAll();
  EXPECT_THAT(ForgottenOf(0), IsEmpty());
  const auto leased = Lease(1, b);
  EXPECT_EQ(leased->ranges_size(), 0);
  ASSERT_EQ(leased->push_completions_size(), 1);
  EXPECT_EQ(leased->push_completions(0).worker().worker_generation(), a);
  EXPECT_EQ(leased->push_completions(0).sequence(), 1u);
  std::vector<uint64_t> done;
  for (int i = 0; i < 3; ++i) {
    const auto range = Lease(1, b, done);
    ASSERT_EQ(range->ranges_size(), 1);
    done = {range->leases(0)};
  }
  EXPECT_FALSE(Lease(1, b, done)->exhausted());
  const auto refused = coordinator_->OpenCut();
  EXPECT_TRUE(absl::IsUnavailable(refused.status())) << refused.status();
  EXPECT_THAT(std::string(refused.status().message()),
              HasSubstr("1 completions"));
  EXPECT_TRUE(Lease(1, b, {leased->push_completions(0).lease()})->exhausted());
  EXPECT_THAT(ForgottenOf(0), ElementsAre(a));
  EXPECT_TRUE(coordinator_->OpenCut().ok());
  EXPECT_EQ(Covered(), "train/0 10-30");
}

TEST_F(CoordinatorDeathsTest, ACompletersDeathHandsThePushCompletionOn) {
  const uint64_t a = Register(0);
  const uint64_t b = Register(1);
  ASSERT_EQ(Lease(0, a)->ranges_size(), 1);
  ApplyAPushPartly(a);
  const uint64_t successor = Register(0);
  BeatAll();
  const auto first = Lease(1, b);
  ASSERT_EQ(first->push_completions_size(), 1);
  Register(1);
  BeatAll();
  const auto second = Lease(0, successor, {first->push_completions(0).lease()});
  ASSERT_EQ(second->push_completions_size(), 1);
  EXPECT_EQ(second->push_completions(0).worker().worker_generation(), a);
  EXPECT_NE(second->push_completions(0).lease(),
            first->push_completions(0).lease());
  EXPECT_THAT(ForgottenOf(0), IsEmpty());
  EXPECT_THAT(ForgottenOf(1), ElementsAre(b));
  Lease(0, successor, {second->push_completions(0).lease()}).IgnoreError();
  EXPECT_THAT(ForgottenOf(0), ElementsAre(a));
}

TEST_F(CoordinatorDeathsTest, ADeathEndsACutThatIsNotMarked) {
  const uint64_t a = Register(0);
  const uint64_t b = Register(1);
  ASSERT_EQ(Lease(0, a)->ranges_size(), 1);
  ASSERT_EQ(*coordinator_->OpenCut(), 1u);
  ASSERT_TRUE(MarkCut(0, a, 1).ok());
  Register(0);
  ASSERT_TRUE(MarkCut(1, b, 1).ok());
  const absl::Status ended =
      coordinator_->AwaitMarks(clock_, absl::ZeroDuration());
  EXPECT_TRUE(absl::IsAborted(ended)) << ended;
  EXPECT_THAT(std::string(ended.message()), HasSubstr("worker 0 died"));
  coordinator_->CloseCut();
  BeatAll();
  EXPECT_EQ(*coordinator_->OpenCut(), 2u);
  EXPECT_TRUE(absl::IsDeadlineExceeded(
      coordinator_->AwaitMarks(clock_, absl::ZeroDuration())));
}

TEST_F(CoordinatorDeathsTest, AFailedJobEndsACutThatIsNotMarked) {
  const uint64_t a = Register(0);
  Register(1);
  ASSERT_EQ(*coordinator_->OpenCut(), 1u);
  ASSERT_TRUE(MarkCut(0, a, 1).ok());
  absl::Status ended;
  std::thread checkpoint([&] {
    ended = coordinator_->AwaitMarks(clock_, absl::InfiniteDuration());
  });
  coordinator_->Stop("server 0 was asked to stop");
  checkpoint.join();
  EXPECT_TRUE(absl::IsUnavailable(ended)) << ended;
  EXPECT_THAT(std::string(ended.message()),
              HasSubstr("server 0 was asked to stop"));
}

TEST_F(CoordinatorDeathsTest, ADeathDoesNotEndACutThatAllHaveMarked) {
  const uint64_t a = Register(0);
  const uint64_t b = Register(1);
  ASSERT_EQ(Lease(0, a)->ranges_size(), 1);
  ASSERT_EQ(*coordinator_->OpenCut(), 1u);
  ASSERT_TRUE(MarkCut(0, a, 1).ok());
  ASSERT_TRUE(MarkCut(1, b, 1).ok());
  ApplyAPushPartly(a);
  Register(0);
  BeatAll();
  EXPECT_TRUE(coordinator_->AwaitMarks(clock_, absl::ZeroDuration()).ok());
  // What it pushed after its mark is in no manifest but the next one.
  EXPECT_EQ(Covered(), "");
  coordinator_->CloseCut();
  const auto leased = Lease(1, b);
  ASSERT_EQ(leased->push_completions_size(), 1);
  Lease(1, b, {leased->push_completions(0).lease()}).IgnoreError();
  ASSERT_EQ(*coordinator_->OpenCut(), 2u);
  EXPECT_EQ(Covered(), "train/0 10-30");
}

TEST_F(CoordinatorDeathsTest, WhoFinishesOrTrainedNothingIsNoDeath) {
  const uint64_t a = Register(0);
  const uint64_t b = Register(1);
  ASSERT_EQ(Lease(1, b)->ranges_size(), 1);
  ASSERT_EQ(*coordinator_->OpenCut(), 1u);
  const uint64_t successor = Register(0);
  ASSERT_TRUE(Finish(1, b).ok());
  EXPECT_TRUE(coordinator_->AwaitMarks(clock_, absl::ZeroDuration()).ok());
  coordinator_->CloseCut();
  EXPECT_EQ(*coordinator_->OpenCut(), 2u);
  EXPECT_EQ(ServerBeat(0).wanted_ledgers_size(), 0);
  BeatAll();
  EXPECT_THAT(ForgottenOf(0), ElementsAre(a));
  EXPECT_THAT(ForgottenOf(1), ElementsAre(b));
  EXPECT_EQ(Lease(0, successor)->ranges_size(), 1);
}

TEST_F(CoordinatorDeathsTest, DoneLeasesOfTheDeadAreCoveredFromItsLedger) {
  const uint64_t a = Register(0);
  const uint64_t b = Register(1);
  const auto leased = Lease(0, a);
  ASSERT_EQ(leased->ranges_size(), 1);
  Lease(0, a, {leased->leases(0)}).IgnoreError();
  v1::WorkerLedger& ledger = ledgers_[1].emplace_back();
  ledger.mutable_worker()->set_worker_generation(a);
  ledger.set_highest(100);
  ledger.add_fully_applied_examples()->set_end(100);
  *ledger.add_fully_applied_dense_examples() = ledger.fully_applied_examples(0);
  Register(0);
  BeatAll();
  EXPECT_EQ(Covered(), "train/0 0-100");
  // Of the second range nothing was seen.
  const auto again = Lease(1, b);
  ASSERT_EQ(again->ranges_size(), 1);
  EXPECT_EQ(again->ranges(0).begin(), 100u);
  EXPECT_TRUE(Lease(1, b, {again->leases(0)})->exhausted());
}

TEST_F(CoordinatorDeathsTest, IncarnationsBeforeACheckpointAreForgotten) {
  coordinator_.emplace(options_, clock_);
  v1::CheckpointManifest manifest;
  manifest.set_next_generation(5'000'000);
  coordinator_->Restore(manifest);
  EXPECT_THAT(ForgottenOf(0), ElementsAre(4'999'999));
  EXPECT_THAT(ForgottenOf(1), ElementsAre(4'999'999));
  EXPECT_GT(Register(0), 4'999'999u);
}

}  // namespace
}  // namespace oarlock::coordinator
