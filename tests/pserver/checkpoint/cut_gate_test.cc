#include "pserver/checkpoint/cut_gate.h"

#include <atomic>
#include <cstdint>
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

// Passes a push and records its number when it is applied.
void Pass(CutGate* gate, uint64_t cut, int number, std::vector<int>* applied) {
  gate->Pass(cut, [number, applied](const absl::Status& status) {
    applied->push_back(status.ok() ? number : -number);
  });
}

TEST(CutGateTest, APushOfAFinishedCutIsAppliedAtOnce) {
  CutGate gate;
  std::vector<int> applied;
  Pass(&gate, 0, 1, &applied);
  gate.Finish(5);
  Pass(&gate, 5, 2, &applied);
  Pass(&gate, 3, 3, &applied);
  EXPECT_THAT(applied, ElementsAre(1, 2, 3));
}

TEST(CutGateTest, APushOfAnOpenCutWaitsForTheFreeze) {
  CutGate gate;
  std::vector<int> applied;
  Pass(&gate, 1, 1, &applied);
  Pass(&gate, 0, 2, &applied);
  Pass(&gate, 1, 3, &applied);
  EXPECT_EQ(gate.HeldPushes(), 2);
  std::vector<int> at_freeze;
  gate.Freeze(1, [&] { at_freeze = applied; });
  EXPECT_THAT(at_freeze, ElementsAre(2));
  EXPECT_THAT(applied, ElementsAre(2, 1, 3));
  EXPECT_EQ(gate.HeldPushes(), 0);
}

TEST(CutGateTest, PushesOfALaterCutGoOnWaiting) {
  CutGate gate;
  std::vector<int> applied;
  Pass(&gate, 2, 1, &applied);
  Pass(&gate, 1, 2, &applied);
  gate.Finish(1);
  EXPECT_THAT(applied, ElementsAre(2));
  gate.Finish(1);
  EXPECT_THAT(applied, ElementsAre(2));
  gate.Finish(2);
  EXPECT_THAT(applied, ElementsAre(2, 1));
}

TEST(CutGateTest, OnePushTooManyIsRefused) {
  CutGate gate;
  std::vector<int> applied;
  for (size_t i = 0; i < CutGate::kMaxHeldPushes; ++i) {
    gate.Pass(1, [](const absl::Status&) {});
  }
  absl::Status refused;
  gate.Pass(1, [&](const absl::Status& status) { refused = status; });
  EXPECT_EQ(refused.code(), absl::StatusCode::kResourceExhausted) << refused;
  // Those before the cut are no concern of it.
  Pass(&gate, 0, 1, &applied);
  EXPECT_THAT(applied, ElementsAre(1));
}

TEST(CutGateTest, AShutdownAnswersWhatIsHeld) {
  CutGate gate;
  std::vector<int> applied;
  Pass(&gate, 1, 1, &applied);
  gate.Shutdown();
  EXPECT_THAT(applied, ElementsAre(-1));
  Pass(&gate, 1, 2, &applied);
  EXPECT_THAT(applied, ElementsAre(-1, -2));
}

TEST(CutGateTest, TheNewestAnnouncementStays) {
  CutGate gate;
  gate.Announce(3);
  gate.Announce(2);
  EXPECT_EQ(gate.announced(), 3);
}

// Pushers raise their cut at random moments; at each freeze exactly the pushes
// with lower numbers have been applied.
TEST(CutGateTest, AFreezeDividesThePushesOfManyThreads) {
  constexpr int kThreads = 4;
  constexpr uint64_t kCuts = 50;
  CutGate gate;
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
        gate.Pass(cut, [&, cut](const absl::Status& status) {
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
