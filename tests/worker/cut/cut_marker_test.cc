#include "worker/cut/cut_marker.h"

#include <gtest/gtest.h>

#include <atomic>
#include <cstdint>
#include <memory>
#include <thread>
#include <vector>

#include "absl/strings/str_cat.h"
#include "base/call_and_wait.h"
#include "base/clock.h"
#include "base/random.h"
#include "tests/base/eventually.h"
#include "tests/worker/cut/cut_marker_testing.h"
#include "tests/worker/cut_oracle.h"

namespace oarlock::worker {
namespace {

class CutMarkerTest : public ::testing::Test {
 protected:
  void Start(uint64_t pushes_per_cut, uint64_t seed = 1) {
    oracle_ = std::make_unique<CutOracle>(pushes_per_cut);
    servers_ = std::make_unique<Servers>(oracle_.get(), seed);
    job_ = std::make_unique<CuttingJob>(
        [this](uint64_t cut, const std::vector<v1::TrainedExamples>& trained) {
          if (refuse_mark_.exchange(false)) {
            return absl::UnavailableError("as the test says");
          }
          oracle_->Marked(cut, trained);
          servers_->ReleaseHeld();
          return absl::OkStatus();
        });
    marker_ = std::make_unique<CutMarker>(servers_.get(), job_.get(),
                                          CutMarker::Numbering::kByCut, clock_);
  }
  // Opens one and waits until it is marked.
  void CutNow() {
    oracle_->OpenCut();
    servers_->Tell();
    ASSERT_TRUE(
        Eventually([&] { return oracle_->marked() == oracle_->newest(); }));
  }

  const FakeClock clock_;
  std::atomic<bool> refuse_mark_ = false;
  std::unique_ptr<CutOracle> oracle_;
  std::unique_ptr<Servers> servers_;
  std::unique_ptr<CuttingJob> job_;
  std::unique_ptr<CutMarker> marker_;
};

// Copies, permits, intervals and compute threads of all kinds; fewer permits
// than copies are what advanced copies can use up.
TEST_F(CutMarkerTest, EveryExampleIsReportedOnceAndOnItsSideOfTheCut) {
  for (uint64_t seed = 1; seed <= 12; ++seed) {
    SCOPED_TRACE(absl::StrCat("seed ", seed));
    RandomSequence random(seed);
    Start(/*pushes_per_cut=*/5 + random.Below(40), seed);
    // The marker may come to its turn late on a busy machine.
    for (int epoch = 0; epoch < 2 || oracle_->num_marks() < 3; ++epoch) {
      ASSERT_LT(epoch, 1000) << "no marks are made";
      const int copies = static_cast<int>(1 + random.Below(4));
      Epoch run(marker_.get(), copies, static_cast<int>(1 + random.Below(4)),
                static_cast<uint32_t>(1 + random.Below(5)));
      run.Run(copies + static_cast<int>(random.Below(2)), 150);
      run.End();
    }
    CutNow();
    EXPECT_EQ(oracle_->num_reported(), oracle_->num_seen());
    marker_ = nullptr;
    servers_ = nullptr;
  }
}

TEST_F(CutMarkerTest, MarksWaitForPushCompletionsAndTellNothingOfThem) {
  for (uint64_t seed = 1; seed <= 5; ++seed) {
    SCOPED_TRACE(absl::StrCat("seed ", seed));
    Start(/*pushes_per_cut=*/7, seed);
    Epoch epoch(marker_.get(), 2, 2, 3);
    std::thread completions([this] {
      for (uint64_t i = 1; i <= 150; ++i) {
        client::PushRequest push;
        push.completes = PushStamp{WorkerIndex(1), Generation(2), Sequence(i)};
        push.examples.push_back({0, i, i + 1});
        EXPECT_TRUE(CallAndWait([&](client::ParameterClient::Done done) {
                      marker_->SendCompletingPush(push, nullptr,
                                                  std::move(done));
                    }).ok());
      }
    });
    epoch.Run(3, 150);
    completions.join();
    epoch.End();
    CutNow();
    EXPECT_EQ(oracle_->num_reported(), oracle_->num_seen());
    EXPECT_EQ(oracle_->num_seen(), 450u);
    marker_ = nullptr;
    servers_ = nullptr;
  }
}

TEST_F(CutMarkerTest, MarksAtOnceWithoutAnEpoch) {
  Start(0);
  CutNow();
  EXPECT_EQ(oracle_->num_reported(), 0u);
  Epoch epoch(marker_.get(), 2, 2, 3);
  epoch.Run(2, 5);
  epoch.End();
  CutNow();
  EXPECT_EQ(oracle_->num_reported(), 10u);
}

TEST_F(CutMarkerTest, CopiesOfALaterEpochBeginWithTheCut) {
  Start(0);
  CutNow();
  Epoch epoch(marker_.get(), 1, 1, 1);
  EXPECT_EQ(marker_->cut(), 1u);
  // Refused by the oracle if it carried less.
  epoch.Run(1, 3);
  epoch.End();
}

TEST_F(CutMarkerTest, WhatWasTrainedAfterTheLastMarkIsReportedForTheNextCut) {
  Start(0);
  Epoch epoch(marker_.get(), 2, 2, 3);
  epoch.Run(2, 7);
  CutNow();
  epoch.Run(2, 4);
  epoch.End();
  EXPECT_EQ(oracle_->num_reported(), 14u);
  ASSERT_TRUE(marker_->ReportRest().ok());
  EXPECT_EQ(oracle_->num_reported(), 22u);
  CutNow();
  EXPECT_EQ(oracle_->num_reported(), 22u);
}

TEST_F(CutMarkerTest, ExamplesOfAMarkThatFailedAreReportedWithTheNext) {
  Start(0);
  Epoch epoch(marker_.get(), 1, 2, 2);
  epoch.Run(1, 5);
  refuse_mark_ = true;
  oracle_->OpenCut();
  servers_->Tell();
  ASSERT_TRUE(Eventually([&] { return !refuse_mark_; }));
  CutNow();
  EXPECT_EQ(oracle_->num_reported(), 5u);
  epoch.End();
}

TEST_F(CutMarkerTest, NothingIsReportedAfterAPushThatFailed) {
  Start(0);
  Epoch epoch(marker_.get(), 1, 2, 2);
  epoch.Run(1, 3);
  servers_->FailNext();
  epoch.Run(1, 1);
  epoch.End(/*failed=*/true);
  EXPECT_TRUE(marker_->ReportRest().ok());
  EXPECT_EQ(oracle_->num_reported(), 0u);
}

TEST_F(CutMarkerTest, NothingIsReportedWhenDenseGradientsWereDropped) {
  Start(0);
  Epoch epoch(marker_.get(), 1, 2, /*interval=*/5);
  epoch.Run(1, 3);
  epoch.End(/*failed=*/true);
  EXPECT_TRUE(marker_->ReportRest().ok());
  EXPECT_EQ(oracle_->num_reported(), 0u);
}

}  // namespace
}  // namespace oarlock::worker
