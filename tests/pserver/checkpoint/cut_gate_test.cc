#include "pserver/checkpoint/cut_gate.h"

#include <atomic>
#include <cstdint>
#include <memory>
#include <random>
#include <thread>
#include <vector>

#include "absl/status/status.h"
#include "absl/synchronization/notification.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace oarlock::pserver {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;

constexpr uint64_t kMessageBytes = 100;
constexpr uint64_t kHeldBytes = kMessageBytes + HoldBudget::kCallBytes;

// Passes a push and records its number when it is applied.
void Pass(CutGate* gate, uint64_t cut, int number, std::vector<int>* applied) {
  gate->Pass(cut, kMessageBytes, [number, applied](const absl::Status& status) {
    applied->push_back(status.ok() ? number : -number);
  });
}

// The refusal, or OK for a push that is applied, now or later.
absl::Status StatusOfPass(CutGate* gate, uint64_t cut) {
  const auto status = std::make_shared<absl::Status>();
  gate->Pass(cut, kMessageBytes,
             [status](const absl::Status& given) { *status = given; });
  return *status;
}

TEST(CutGateTest, APushOfAFinishedCutIsAppliedAtOnce) {
  HoldBudget budget(1 << 30);
  CutGate gate(&budget);
  std::vector<int> applied;
  Pass(&gate, 0, 1, &applied);
  gate.Finish(5);
  Pass(&gate, 5, 2, &applied);
  Pass(&gate, 3, 3, &applied);
  EXPECT_THAT(applied, ElementsAre(1, 2, 3));
}

TEST(CutGateTest, APushOfAnOpenCutWaitsForTheFreeze) {
  HoldBudget budget(1 << 30);
  CutGate gate(&budget);
  std::vector<int> applied;
  gate.Announce(1);
  Pass(&gate, 1, 1, &applied);
  Pass(&gate, 0, 2, &applied);
  Pass(&gate, 1, 3, &applied);
  EXPECT_EQ(gate.HeldPushes(), 2);
  EXPECT_EQ(budget.held_bytes(), 2 * kHeldBytes);
  std::vector<int> at_freeze;
  gate.Freeze(1, [&] { at_freeze = applied; });
  EXPECT_THAT(at_freeze, ElementsAre(2));
  EXPECT_THAT(applied, ElementsAre(2, 1, 3));
  EXPECT_EQ(gate.HeldPushes(), 0);
  EXPECT_EQ(budget.held_bytes(), 0);
}

TEST(CutGateTest, PushesOfALaterCutGoOnWaiting) {
  HoldBudget budget(1 << 30);
  CutGate gate(&budget);
  std::vector<int> applied;
  gate.Announce(2);
  Pass(&gate, 2, 1, &applied);
  Pass(&gate, 1, 2, &applied);
  gate.Finish(1);
  EXPECT_THAT(applied, ElementsAre(2));
  gate.Finish(1);
  EXPECT_THAT(applied, ElementsAre(2));
  gate.Finish(2);
  EXPECT_THAT(applied, ElementsAre(2, 1));
}

TEST(CutGateTest, WhatWouldHoldTooManyBytesIsRefused) {
  for (const uint64_t max_held_bytes :
       {3 * kHeldBytes - 1, 3 * kHeldBytes, 3 * kHeldBytes + 1}) {
    SCOPED_TRACE(max_held_bytes);
    HoldBudget budget(max_held_bytes);
    CutGate gate(&budget);
    gate.Announce(1);
    std::vector<int> applied;
    Pass(&gate, 1, 1, &applied);
    Pass(&gate, 1, 2, &applied);
    EXPECT_EQ(StatusOfPass(&gate, 1).code(),
              max_held_bytes < 3 * kHeldBytes
                  ? absl::StatusCode::kResourceExhausted
                  : absl::StatusCode::kOk);
    // Those before the cut are no concern of it.
    Pass(&gate, 0, 3, &applied);
    EXPECT_THAT(applied, ElementsAre(3));
    gate.Finish(1);
    EXPECT_EQ(budget.held_bytes(), 0);
  }
}

TEST(CutGateTest, ACutThatIsNotKnownHereIsUnavailable) {
  HoldBudget budget(1 << 30);
  CutGate gate(&budget);
  gate.Announce(1);
  const absl::Status status = StatusOfPass(&gate, uint64_t{1} << 40);
  EXPECT_EQ(status.code(), absl::StatusCode::kUnavailable) << status;
  EXPECT_EQ(gate.HeldPushes(), 0);
  gate.Announce(2);
  EXPECT_TRUE(StatusOfPass(&gate, 2).ok());
  EXPECT_EQ(gate.HeldPushes(), 1);
  gate.Finish(2);
  // The order to open it here may have been missed.
  gate.Expect(3);
  EXPECT_TRUE(StatusOfPass(&gate, 3).ok());
  EXPECT_EQ(gate.announced(), 2);
  EXPECT_EQ(gate.HeldPushes(), 1);
  gate.Finish(3);
  EXPECT_EQ(gate.HeldPushes(), 0);
}

TEST(CutGateTest, AShutdownAnswersWhatIsHeld) {
  HoldBudget budget(1 << 30);
  CutGate gate(&budget);
  gate.Announce(1);
  std::vector<int> applied;
  Pass(&gate, 1, 1, &applied);
  gate.Shutdown();
  EXPECT_THAT(applied, ElementsAre(-1));
  Pass(&gate, 1, 2, &applied);
  EXPECT_THAT(applied, ElementsAre(-1, -2));
}

TEST(CutGateTest, TheNewestAnnouncementStays) {
  HoldBudget budget(1 << 30);
  CutGate gate(&budget);
  gate.Announce(3);
  gate.Announce(2);
  EXPECT_EQ(gate.announced(), 3);
}

// Pushers raise their cut at random moments; at each freeze exactly the pushes
// with lower numbers have been applied.
TEST(CutGateTest, AFreezeDividesThePushesOfManyThreads) {
  constexpr int kThreads = 4;
  constexpr uint64_t kCuts = 50;
  HoldBudget budget(1 << 30);
  CutGate gate(&budget);
  // By cut number that the push carries.
  std::vector<std::atomic<int>> sent(kCuts + 1);
  std::vector<std::atomic<int>> applied(kCuts + 1);
  std::atomic<uint64_t> opened{0};
  // Threads whose pushes below the open cut are all applied.
  std::atomic<int> marked{0};
  std::vector<std::thread> threads;
  for (int t = 0; t < kThreads; ++t) {
    threads.emplace_back([&, t] {
      std::mt19937 random(t);
      for (uint64_t cut = 0;;) {
        ++sent[cut];
        absl::Notification done;
        gate.Pass(cut, kMessageBytes, [&, cut](const absl::Status& status) {
          ASSERT_TRUE(status.ok()) << status;
          ++applied[cut];
          done.Notify();
        });
        done.WaitForNotification();
        if (opened > cut && random() % 3 == 0) {
          ++cut;
          ++marked;
        }
        if (cut == kCuts) return;
      }
    });
  }
  for (uint64_t cut = 1; cut <= kCuts; ++cut) {
    marked = 0;
    gate.Announce(cut);
    opened = cut;
    while (marked < kThreads) std::this_thread::yield();
    std::vector<int> at_freeze(kCuts + 1);
    gate.Freeze(cut, [&] {
      for (uint64_t c = 0; c <= kCuts; ++c) at_freeze[c] = applied[c];
    });
    for (uint64_t c = 0; c < cut; ++c) {
      EXPECT_EQ(at_freeze[c], sent[c]) << "cut " << cut << ", pushes of " << c;
    }
    EXPECT_EQ(at_freeze[cut], 0) << "cut " << cut;
  }
  for (std::thread& thread : threads) thread.join();
}

}  // namespace
}  // namespace oarlock::pserver
