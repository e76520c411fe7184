#include "pserver/aggregator/quorum_aggregator.h"

#include <atomic>
#include <cstdint>
#include <map>
#include <memory>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/synchronization/notification.h"
#include "base/clock.h"
#include "gtest/gtest.h"
#include "pserver/aggregator/quorum_timeout.h"
#include "sparse_table/dense/dense_table.h"
#include "tests/base/skippable_clock.h"
#include "tests/pserver/service/push_testing.h"

namespace oarlock::pserver {
namespace {

constexpr uint32_t kBlock = 8;
constexpr BlockIndex kOnly(0);

v1::TableConfig Config(float quorum, uint32_t pushes_per_worker = 1) {
  // SGD with rate -1: the table is the sum of all gradients.
  v1::TableConfig config = DenseConfig(kBlock, kBlock, -1);
  config.mutable_dense()->set_quorum(quorum);
  config.mutable_dense()->set_pushes_per_worker(pushes_per_worker);
  return config;
}

// A table, its aggregator with the timer by hand, and who was answered.
class Fixture {
 public:
  explicit Fixture(const v1::TableConfig& config)
      : table_(MakeDense(config)),
        aggregator_(table_.get(), clock_, QuorumAggregator::Timer::kByHand) {}
  // Answers what is held while answered_ is there.
  ~Fixture() { aggregator_.Shutdown(); }

  // The next push of the worker, of ones.
  void Push(uint32_t worker) { Push(worker, ++sequences_[worker]); }
  void Push(uint32_t worker, uint64_t sequence) {
    aggregator_.PushDense(DensePushOf(PushHeader(worker, 1, sequence),
                                      {{kOnly, std::vector<float>(kBlock, 1)}}),
                          [this, worker](absl::StatusOr<PushOutcome> outcome) {
                            EXPECT_TRUE(outcome.ok()) << outcome.status();
                            answered_.push_back(worker);
                          });
  }
  // Who was answered since the last call.
  std::vector<uint32_t> TakeAnswered() { return std::exchange(answered_, {}); }
  float value() const { return BlockOf(*table_, kOnly)[0]; }
  // A push of each so that all are at work; the clock stands still.
  void Enter(uint32_t workers) {
    for (uint32_t turn = 0; turn < 3; ++turn) {
      for (uint32_t w = 0; w < workers; ++w) Push(w);
    }
    aggregator_.ReleaseDue();
    clock_.Advance(absl::Seconds(10));
    aggregator_.ReleaseDue();
    TakeAnswered();
  }

  FakeClock clock_;
  std::unique_ptr<sparse_table::DenseTable> table_;
  QuorumAggregator aggregator_;

 private:
  std::map<uint32_t, uint64_t> sequences_;
  std::vector<uint32_t> answered_;
};

using Workers = std::vector<uint32_t>;

TEST(QuorumAggregatorTest, PushesOfAQuorumAreOneUpdateAndAnsweredTogether) {
  Fixture f(Config(0.75f));
  f.Enter(4);
  const float before = f.value();
  const uint64_t version = f.aggregator_.Version();
  f.Push(2);
  f.Push(0);
  EXPECT_EQ(f.TakeAnswered(), Workers());
  EXPECT_EQ(f.value(), before);
  EXPECT_EQ(f.aggregator_.HeldPushes(), 2u);
  f.Push(3);
  EXPECT_EQ(f.TakeAnswered(), (Workers{2, 0, 3}));
  EXPECT_EQ(f.value(), before + 3);
  EXPECT_EQ(f.aggregator_.Version(), version + 1);
  // Who comes late is part of the next one.
  f.Push(1);
  EXPECT_EQ(f.TakeAnswered(), Workers());
  f.Push(0);
  f.Push(2);
  EXPECT_EQ(f.TakeAnswered(), (Workers{1, 0, 2}));
  EXPECT_EQ(f.value(), before + 6);
}

TEST(QuorumAggregatorTest, AQuorumWaitsAMomentForThoseWhoAreAboutToCome) {
  Fixture f(Config(0.75f));
  f.Enter(4);
  const absl::Duration took = absl::Milliseconds(160);
  const absl::Duration moment = took / QuorumTimeout::kGraceShare;
  const auto push_three = [&] {
    f.Push(0);
    f.clock_.Advance(took);
    f.Push(1);
    f.Push(2);
    f.clock_.Advance(moment - absl::Microseconds(1));
    f.aggregator_.ReleaseDue();
    EXPECT_EQ(f.TakeAnswered(), Workers());
  };
  push_three();
  f.Push(3);
  EXPECT_EQ(f.TakeAnswered(), (Workers{0, 1, 2, 3})) << "all are there";
  push_three();
  f.clock_.Advance(absl::Microseconds(1));
  f.aggregator_.ReleaseDue();
  EXPECT_EQ(f.TakeAnswered(), (Workers{0, 1, 2}));
  f.Push(3);
  EXPECT_EQ(f.TakeAnswered(), Workers());
  EXPECT_EQ(f.aggregator_.OverdueUpdates(), 1u) << "of Enter";
}

TEST(QuorumAggregatorTest, OneWorkerWaitsForNobody) {
  Fixture f(Config(0.75f));
  for (int i = 1; i <= 5; ++i) {
    f.Push(0);
    EXPECT_EQ(f.TakeAnswered(), Workers{0});
    EXPECT_EQ(f.value(), i);
  }
}

TEST(QuorumAggregatorTest, ThreadsOfAWorkerCountAsWorkersDo) {
  Fixture f(Config(1, /*pushes_per_worker=*/2));
  f.Enter(2);
  f.Push(0);
  f.Push(1);
  f.Push(1);
  EXPECT_EQ(f.TakeAnswered(), Workers());
  f.Push(0);
  EXPECT_EQ(f.TakeAnswered(), (Workers{0, 1, 1, 0}));
}

TEST(QuorumAggregatorTest,
     WorkerThatDoesNotComeHoldsUpTwoUpdatesAndIsForgotten) {
  Fixture f(Config(1));
  f.Enter(3);
  for (int turn = 0; turn < 2; ++turn) {
    f.Push(0);
    f.Push(1);
    EXPECT_EQ(f.TakeAnswered(), Workers()) << "worker 2 is waited for";
    f.aggregator_.ReleaseDue();
    EXPECT_EQ(f.TakeAnswered(), Workers()) << "it has time";
    f.clock_.Advance(f.aggregator_.hold());
    f.aggregator_.ReleaseDue();
    EXPECT_EQ(f.TakeAnswered(), (Workers{0, 1}));
  }
  f.Push(0);
  f.Push(1);
  EXPECT_EQ(f.TakeAnswered(), (Workers{0, 1}));
  // It is back, late: part of the next update, and counted again.
  f.Push(2);
  EXPECT_EQ(f.TakeAnswered(), Workers());
  f.Push(0);
  f.Push(1);
  EXPECT_EQ(f.TakeAnswered(), (Workers{2, 0, 1}));
}

// A worker says three, and has two under way at most.
class TwoOfThree : public Fixture {
 public:
  TwoOfThree() : Fixture(Config(1, /*pushes_per_worker=*/3)) { Enter(1); }

  // Whom two pushes free.
  Workers PushTwo() {
    Push(0);
    Push(0);
    return TakeAnswered();
  }
  // So many updates without a quorum.
  void BeOverdue(int updates) {
    for (int turn = 0; turn < updates; ++turn) {
      EXPECT_EQ(PushTwo(), Workers());
      clock_.Advance(aggregator_.hold());
      aggregator_.ReleaseDue();
      EXPECT_EQ(TakeAnswered(), (Workers{0, 0}));
    }
  }
  // Two are a quorum for so many updates, and then no longer.
  void ExpectLoweredFor(uint64_t updates) {
    for (uint64_t i = 0; i < updates; ++i) {
      ASSERT_EQ(PushTwo(), (Workers{0, 0})) << i;
    }
  }
};

TEST(QuorumAggregatorTest, QuorumThatNeverComesIsLoweredToWhatDoes) {
  TwoOfThree f;
  // It is tried again soon at first, then now and then, once each time.
  int tries = QuorumTimeout::kTimeoutsMax;
  for (const uint64_t updates : {8, 16, 32, 64, 128, 256, 256}) {
    SCOPED_TRACE(updates);
    f.BeOverdue(tries);
    f.ExpectLoweredFor(updates);
    tries = 1;
  }
  EXPECT_EQ(f.aggregator_.hold(), QuorumTimeout::kHoldMin);
  EXPECT_EQ(f.aggregator_.OverdueUpdates(), QuorumTimeout::kTimeoutsMax + 6);
}

// One thread of many goes on: the others' files are done.
TEST(QuorumAggregatorTest, OneThreadOfManyDoesNotWaitForLong) {
  Fixture f(Config(0.75f, /*pushes_per_worker=*/8));
  absl::Duration waited;
  for (int push = 0; push < 1000; ++push) {
    f.Push(0);
    if (!f.TakeAnswered().empty()) continue;
    waited += f.aggregator_.hold();
    f.clock_.Advance(f.aggregator_.hold());
    f.aggregator_.ReleaseDue();
    ASSERT_EQ(f.TakeAnswered(), Workers{0});
  }
  // 200 ms and, half as much again each time, three others; then once for 8
  // updates, for 16 and so on.
  EXPECT_LT(waited, absl::Milliseconds(200 + 300 + 450 + 675 + 8 * 200));
}

TEST(QuorumAggregatorTest, QuorumThatComesAfterAllIsTriedSoonTheNextTime) {
  TwoOfThree f;
  for (const uint64_t updates : {8, 16}) {
    f.BeOverdue(updates == 8 ? QuorumTimeout::kTimeoutsMax : 1);
    f.ExpectLoweredFor(updates);
  }
  EXPECT_EQ(f.PushTwo(), Workers());
  f.Push(0);
  EXPECT_EQ(f.TakeAnswered(), (Workers{0, 0, 0}));
  f.BeOverdue(QuorumTimeout::kTimeoutsMax);
  f.ExpectLoweredFor(8);
  EXPECT_EQ(f.PushTwo(), Workers());
}

TEST(QuorumAggregatorTest, TheFirstQuorumsDoNotShortenTheTimeout) {
  Fixture f(Config(1));
  f.Push(0);
  EXPECT_EQ(f.TakeAnswered(), Workers{0}) << "nobody else is known";
  // Two begin together, the third one later.
  for (int turn = 0; turn < 2; ++turn) {
    f.Push(1);
    f.Push(0);
    EXPECT_EQ(f.TakeAnswered(), (Workers{1, 0}));
  }
  f.Push(2);
  f.clock_.Advance(QuorumTimeout::kHoldFirst * 3 / 4);
  f.aggregator_.ReleaseDue();
  EXPECT_EQ(f.TakeAnswered(), Workers());
  f.Push(0);
  f.Push(1);
  EXPECT_EQ(f.TakeAnswered(), (Workers{2, 0, 1}));
  // One that took long teaches at once.
  EXPECT_EQ(f.aggregator_.hold(),
            QuorumTimeout::kMultiple * QuorumTimeout::kHoldFirst * 3 / 4);
}

TEST(QuorumAggregatorTest, TheTimeoutFollowsWhatQuorumsTake) {
  Fixture f(Config(1));
  f.Enter(2);
  for (int turn = 0; turn < 100; ++turn) {
    f.Push(0);
    f.clock_.Advance(absl::Milliseconds(100));
    f.Push(1);
  }
  EXPECT_EQ(f.TakeAnswered().size(), 200u);
  const absl::Duration hold = f.aggregator_.hold();
  EXPECT_NEAR(absl::ToDoubleMilliseconds(hold), 300, 1);
  f.Push(0);
  f.clock_.Advance(absl::Milliseconds(290));
  f.aggregator_.ReleaseDue();
  EXPECT_EQ(f.TakeAnswered(), Workers());
  f.clock_.Advance(absl::Milliseconds(11));
  f.aggregator_.ReleaseDue();
  EXPECT_EQ(f.TakeAnswered(), Workers{0});
  EXPECT_GT(f.aggregator_.hold(), hold) << "perhaps steps have become longer";
  for (int turn = 0; turn < 100; ++turn) {
    f.Push(0);
    f.Push(1);
  }
  EXPECT_EQ(f.aggregator_.hold(), QuorumTimeout::kHoldMin);
}

// Its pushes came one right after the other, and of some who are gone since.
TEST(QuorumAggregatorTest, AReplayedLogTeachesNothing) {
  Fixture f(Config(1));
  f.Enter(3);
  for (int turn = 0; turn < 2 * QuorumTimeout::kQuorumsFirst; ++turn) {
    for (const uint32_t worker : {0, 1, 2}) f.Push(worker);
  }
  f.TakeAnswered();
  EXPECT_EQ(f.aggregator_.hold(), QuorumTimeout::kHoldMin);
  f.Push(2);
  const float before = f.value();
  f.aggregator_.EndReplay();
  EXPECT_EQ(f.TakeAnswered(), Workers{2});
  EXPECT_EQ(f.value(), before + 1);
  EXPECT_EQ(f.aggregator_.hold(), QuorumTimeout::kHoldFirst);
  f.Push(0);
  EXPECT_EQ(f.TakeAnswered(), Workers{0}) << "nobody else is known";
}

TEST(QuorumAggregatorTest, WhatIsCompletedForTheDeadDoesNotBringThemBack) {
  Fixture f(Config(1));
  f.Enter(2);
  for (uint64_t turn = 0; turn < 10; ++turn) {
    const uint32_t worker = turn % 2;
    f.Push(worker);
    EXPECT_EQ(f.TakeAnswered(), Workers()) << "the other one is at work, too";
    v1::RequestHeader header = PushHeader(2, 1, 1000 + turn);
    header.set_completing_generation(1);
    f.aggregator_.PushDense(
        DensePushOf(header, {{kOnly, std::vector<float>(kBlock, 1)}}),
        [](const absl::StatusOr<PushOutcome>&) {});
    EXPECT_EQ(f.TakeAnswered(), Workers{worker}) << "two of two";
  }
}

TEST(QuorumAggregatorTest, PushThatComesAgainIsAnsweredAndNotAddedAgain) {
  Fixture f(Config(1));
  f.Enter(2);
  const float before = f.value();
  f.Push(0, 100);
  f.Push(0, 100);
  f.Push(0, 100);
  EXPECT_EQ(f.TakeAnswered(), Workers()) << "its update is not made";
  EXPECT_EQ(f.aggregator_.HeldPushes(), 1u);
  f.Push(1, 100);
  // The push, the other one, and the two that are the first.
  EXPECT_EQ(f.TakeAnswered(), (Workers{0, 1, 0, 0}));
  EXPECT_EQ(f.value(), before + 2);
  f.Push(1, 100);
  EXPECT_EQ(f.TakeAnswered(), Workers{1}) << "its update is made";
  EXPECT_EQ(f.value(), before + 2);
}

TEST(QuorumAggregatorTest, PushThatComesAgainIsAnsweredHoweverItsUpdateIsMade) {
  for (const std::string how : {"time", "cut", "shutdown"}) {
    Fixture f(Config(1));
    f.Enter(2);
    const float before = f.value();
    f.Push(0, 100);
    f.Push(0, 100);
    EXPECT_EQ(f.TakeAnswered(), Workers()) << how;
    if (how == "time") {
      f.clock_.Advance(f.aggregator_.hold());
      f.aggregator_.ReleaseDue();
    } else if (how == "cut") {
      f.aggregator_.HoldRounds();
    } else {
      f.aggregator_.Shutdown();
    }
    EXPECT_EQ(f.TakeAnswered(), (Workers{0, 0})) << how;
    EXPECT_EQ(f.value(), before + 1) << how;
  }
}

TEST(QuorumAggregatorTest, ShutdownAppliesAndAnswersWhatIsHeld) {
  Fixture f(Config(1));
  f.Enter(2);
  const float before = f.value();
  f.Push(0);
  f.aggregator_.Shutdown();
  EXPECT_EQ(f.TakeAnswered(), Workers{0});
  EXPECT_EQ(f.value(), before + 1);
  absl::Status late;
  f.aggregator_.PushDense(
      DensePushOf(PushHeader(0, 1, 99), {{kOnly, std::vector<float>(kBlock)}}),
      [&](absl::StatusOr<PushOutcome> outcome) { late = outcome.status(); });
  EXPECT_TRUE(absl::IsUnavailable(late)) << late;
}

TEST(QuorumAggregatorTest, FreezeHasWhatIsHeldAndLaterPushesAreOfTheNextCut) {
  Fixture f(Config(1));
  f.Enter(2);
  const float before = f.value();
  f.Push(0);
  f.table_->Freeze(1);
  f.Push(1);
  const sparse_table::DenseBlockCut cut =
      f.table_->SaveBlock(kOnly, /*full=*/true);
  f.table_->Thaw(/*published=*/true);
  EXPECT_EQ(cut.floats[0], before + 1);
  EXPECT_EQ(f.value(), before + 2);
  EXPECT_EQ(f.TakeAnswered(), (Workers{0, 1}));
}

TEST(QuorumAggregatorTest, NobodyWaitsWhileACutIsOpen) {
  Fixture f(Config(1));
  f.Enter(3);
  f.Push(0);
  EXPECT_EQ(f.TakeAnswered(), Workers());
  EXPECT_EQ(f.aggregator_.HoldRounds(), 0u);
  EXPECT_EQ(f.TakeAnswered(), Workers{0});
  f.Push(1);
  EXPECT_EQ(f.TakeAnswered(), Workers{1});
  f.aggregator_.AllowRounds(0);
  f.Push(2);
  EXPECT_EQ(f.TakeAnswered(), Workers{2}) << "it is about to be frozen";
  f.aggregator_.AllowRounds(kEveryRound);
  f.Push(0);
  EXPECT_EQ(f.TakeAnswered(), Workers());
  f.Push(1);
  f.Push(2);
  EXPECT_EQ(f.TakeAnswered(), (Workers{0, 1, 2}));
}

// Threads that push, each after its last response, with some that stop and some
// that are slow: every gradient arrives once, and nobody waits for ever.
TEST(QuorumAggregatorTest, EveryPushOfManyThreadsIsAppliedOnceAndAnswered) {
  constexpr uint32_t kThreads = 6;
  constexpr uint64_t kPushes = 200;
  const auto table = MakeDense(Config(0.75f));
  const SkippableClock clock;
  QuorumAggregator aggregator(table.get(), clock);
  std::atomic<uint64_t> responses = 0;
  std::vector<std::thread> threads;
  for (uint32_t w = 0; w < kThreads; ++w) {
    threads.emplace_back([&, w] {
      // One ends early, so that the others outlast it.
      const uint64_t pushes = w == 0 ? kPushes / 10 : kPushes;
      for (uint64_t i = 1; i <= pushes; ++i) {
        absl::Notification done;
        aggregator.PushDense(
            DensePushOf(PushHeader(w, 1, i),
                        {{kOnly, std::vector<float>(kBlock, 1)}}),
            [&](absl::StatusOr<PushOutcome> outcome) {
              EXPECT_TRUE(outcome.ok());
              ++responses;
              done.Notify();
            });
        done.WaitForNotification();
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  const uint64_t pushes = kPushes / 10 + (kThreads - 1) * kPushes;
  EXPECT_EQ(responses, pushes);
  EXPECT_EQ(BlockOf(*table, kOnly), std::vector<float>(kBlock, pushes));
  EXPECT_LT(aggregator.Version(), pushes) << "no two were one update";
}

}  // namespace
}  // namespace oarlock::pserver
