#include "worker/cut_marker.h"

#include <gtest/gtest.h>

#include <atomic>
#include <cstdint>
#include <deque>
#include <functional>
#include <memory>
#include <thread>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/synchronization/mutex.h"
#include "base/call_and_wait.h"
#include "base/random.h"
#include "tests/base/eventually.h"
#include "tests/worker/cut_oracle.h"
#include "tests/worker/fake_job_client.h"

namespace oarlock {
namespace {

constexpr TableId kDense(3);
constexpr char kWork[] = "train/0";

// A coordinator that takes cuts and calls `on_mark`.
class CuttingJob : public FakeJobClient {
 public:
  using OnMark = std::function<absl::Status(
      uint64_t, const std::vector<v1::TrainedExamples>&)>;
  explicit CuttingJob(OnMark on_mark) : on_mark_(std::move(on_mark)) {}

  void Heartbeat(uint64_t cut, uint64_t round) {
    absl::MutexLock lock(&mutex_);
    observer_(cut, round);
  }

  // What the heartbeats that the worker asks for say, one after the other, the
  // last one for ever.
  void Say(std::deque<std::pair<uint64_t, uint64_t>> cuts_and_rounds) {
    absl::MutexLock lock(&mutex_);
    answers_ = std::move(cuts_and_rounds);
  }

  bool takes_cuts() const override { return true; }
  absl::Status Report() override {
    absl::MutexLock lock(&mutex_);
    if (answers_.empty()) return absl::OkStatus();
    const auto [cut, round] = answers_.front();
    if (answers_.size() > 1) answers_.pop_front();
    observer_(cut, round);
    return absl::OkStatus();
  }
  void SetCutObserver(CutObserver observer) override {
    absl::MutexLock lock(&mutex_);
    observer_ = std::move(observer);
  }
  absl::Status MarkCut(
      uint64_t cut, const std::vector<v1::TrainedExamples>& trained) override {
    return on_mark_(cut, trained);
  }

 private:
  const OnMark on_mark_;
  absl::Mutex mutex_;
  CutObserver observer_;
  std::deque<std::pair<uint64_t, uint64_t>> answers_;
};

// Servers that answer pushes one at a time, in any order, from a thread of
// their own, and hold those that the oracle says.
class Servers : public ParameterClient {
 public:
  Servers(CutOracle* oracle, uint64_t seed) : oracle_(oracle), random_(seed) {
    thread_ = std::thread([this] { Run(); });
  }
  ~Servers() override {
    {
      absl::MutexLock lock(&mutex_);
      stopping_ = true;
    }
    thread_.join();
  }

  // The next push that is answered fails.
  void FailNext() { fail_next_ = true; }
  // The marked cut is frozen: what was held for it goes on.
  void ReleaseHeld() {
    absl::MutexLock lock(&mutex_);
    for (Waiting& waiting : held_) waiting_.push_back(std::move(waiting));
    held_.clear();
  }
  // Answers name the newest cut; so does this.
  void Tell() {
    absl::MutexLock lock(&observer_mutex_);
    if (observer_) observer_(oracle_->newest());
  }

  absl::Status CreateTable(const v1::TableConfig&) override {
    return absl::OkStatus();
  }
  void SetCutObserver(CutObserver observer) override {
    absl::MutexLock lock(&observer_mutex_);
    observer_ = std::move(observer);
  }
  int partition_bits() const override { return 0; }
  void PullSparse(TableId, const KeyBatch&, float*, TableVersions*,
                  std::shared_ptr<const void>, Done done) override {
    done(absl::OkStatus());
  }
  void PullDense(TableId, DenseReplica*, std::shared_ptr<const void>,
                 Done done) override {
    done(absl::OkStatus());
  }
  void Push(const PushRequest& push, TableVersions*,
            std::shared_ptr<const void> memory, Done done) override {
    absl::MutexLock lock(&mutex_);
    std::deque<Waiting>& to = oracle_->Arrives(push) ? held_ : waiting_;
    to.push_back({push, std::move(memory), std::move(done)});
  }

 private:
  struct Waiting {
    PushRequest push;
    std::shared_ptr<const void> memory;
    Done done;
  };

  void Run() {
    for (;;) {
      Waiting next;
      {
        absl::MutexLock lock(&mutex_);
        const auto ready = [this] { return stopping_ || !waiting_.empty(); };
        mutex_.Await(absl::Condition(&ready));
        if (waiting_.empty()) return;
        const auto it = waiting_.begin() +
                        static_cast<long>(random_.Below(waiting_.size()));
        next = std::move(*it);
        waiting_.erase(it);
      }
      oracle_->Applied(next.push);
      Tell();
      next.done(fail_next_.exchange(false)
                    ? absl::UnavailableError("as the test says")
                    : absl::OkStatus());
    }
  }

  CutOracle* const oracle_;
  std::atomic<bool> fail_next_ = false;
  absl::Mutex mutex_;
  RandomSequence random_;
  bool stopping_ = false;
  std::deque<Waiting> waiting_;
  std::deque<Waiting> held_;
  absl::Mutex observer_mutex_;
  CutObserver observer_;
  std::thread thread_;
};

std::vector<std::unique_ptr<DenseSlot>> MakeSlots(int count,
                                                  uint32_t interval) {
  v1::OptimizerConfig config;
  config.set_learning_rate(.1f);
  config.mutable_sgd();
  DenseReplica replica;
  replica.values = {0};
  replica.block_versions = {1};
  std::vector<std::unique_ptr<DenseSlot>> slots;
  for (int i = 0; i < count; ++i) {
    slots.push_back(std::make_unique<DenseSlot>(*UpdateRule::Create(config),
                                                replica, interval));
  }
  return slots;
}

// As a pass does it: lanes that compute one example a step.
class Pass {
 public:
  Pass(CutMarker* marker, int num_slots, int num_permits, uint32_t interval)
      : marker_(marker), pool_(MakeSlots(num_slots, interval), num_permits) {
    marker->BeginPass(&pool_, [this](DenseSlot* slot, uint64_t cut,
                                     ParameterClient::Done done) {
      if (!slot->HasGradients()) return done(absl::OkStatus());
      const DenseSlot::Exchange exchange = slot->TakeExchange(kDense);
      PushRequest push;
      push.cut = cut;
      push.dense.push_back(exchange.gradients);
      push.dense_examples = exchange.examples;
      marker_->Push(kWork, push, nullptr, exchange.memory, std::move(done));
    });
  }

  void Run(int num_lanes, int steps_per_lane) {
    std::vector<std::thread> lanes;
    for (int lane = 0; lane < num_lanes; ++lane) {
      lanes.emplace_back([this, steps_per_lane] {
        for (int i = 0; i < steps_per_lane; ++i) Step();
      });
    }
    for (std::thread& lane : lanes) lane.join();
    pool_.WaitForAllPermits();
  }

  void Step() {
    DenseSlot* const slot = pool_.Acquire();
    slot->gradients()[0] = 1;
    const uint64_t example = next_example_++;
    slot->StepDone({{{0, example, example + 1}}});
    pool_.AcquirePermit(*slot);
    PushRequest push;
    push.cut = slot->cut();
    push.examples.push_back({0, example, example + 1});
    if (!slot->ExchangeIsDue()) {
      marker_->Push(kWork, push, nullptr, nullptr,
                    [this](const absl::Status&) { pool_.ReleasePermit(); });
    } else {
      const DenseSlot::Exchange exchange = slot->TakeExchange(kDense);
      push.dense.push_back(exchange.gradients);
      push.dense_examples = exchange.examples;
      CallAndWait([&](ParameterClient::Done done) {
        marker_->Push(kWork, push, nullptr, exchange.memory, std::move(done));
      }).IgnoreError();
      pool_.ReleasePermit();
    }
    pool_.Release(slot);
  }

  void End(bool failed = false) { marker_->EndPass(failed); }

 private:
  CutMarker* const marker_;
  SlotPool pool_;
  // Numbers are those of the whole test.
  static std::atomic<uint64_t> next_example_;
};
std::atomic<uint64_t> Pass::next_example_ = 0;

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
                                          CutMarker::Order::kByCut);
  }
  // Opens one and waits until it is marked.
  void CutNow() {
    oracle_->OpenCut();
    servers_->Tell();
    ASSERT_TRUE(
        Eventually([&] { return oracle_->marked() == oracle_->newest(); }));
  }

  std::atomic<bool> refuse_mark_ = false;
  std::unique_ptr<CutOracle> oracle_;
  std::unique_ptr<Servers> servers_;
  std::unique_ptr<CuttingJob> job_;
  std::unique_ptr<CutMarker> marker_;
};

// Slots, permits, intervals and lanes of all kinds; fewer permits than slots
// are what raised slots can use up.
TEST_F(CutMarkerTest, EveryExampleIsToldOnceAndOnItsSideOfTheCut) {
  for (uint64_t seed = 1; seed <= 12; ++seed) {
    SCOPED_TRACE(absl::StrCat("seed ", seed));
    RandomSequence random(seed);
    Start(/*pushes_per_cut=*/5 + random.Below(40), seed);
    // The marker may come to its turn late on a busy machine.
    for (int pass = 0; pass < 2 || oracle_->num_marks() < 3; ++pass) {
      ASSERT_LT(pass, 1000) << "no marks are made";
      const int slots = static_cast<int>(1 + random.Below(4));
      Pass run(marker_.get(), slots, static_cast<int>(1 + random.Below(4)),
               static_cast<uint32_t>(1 + random.Below(5)));
      run.Run(slots + static_cast<int>(random.Below(2)), 150);
      run.End();
    }
    CutNow();
    EXPECT_EQ(oracle_->num_told(), oracle_->num_seen());
    marker_ = nullptr;
    servers_ = nullptr;
  }
}

TEST_F(CutMarkerTest, MarksWaitForRepairsAndTellNothingOfThem) {
  for (uint64_t seed = 1; seed <= 5; ++seed) {
    SCOPED_TRACE(absl::StrCat("seed ", seed));
    Start(/*pushes_per_cut=*/7, seed);
    Pass pass(marker_.get(), 2, 2, 3);
    std::thread repairs([this] {
      for (uint64_t i = 1; i <= 150; ++i) {
        PushRequest push;
        push.completes = PushStamp{WorkerIndex(1), Generation(2), Sequence(i)};
        push.examples.push_back({0, i, i + 1});
        EXPECT_TRUE(CallAndWait([&](ParameterClient::Done done) {
                      marker_->PushRepaired(push, nullptr, std::move(done));
                    }).ok());
      }
    });
    pass.Run(3, 150);
    repairs.join();
    pass.End();
    CutNow();
    EXPECT_EQ(oracle_->num_told(), oracle_->num_seen());
    EXPECT_EQ(oracle_->num_seen(), 450u);
    marker_ = nullptr;
    servers_ = nullptr;
  }
}

TEST_F(CutMarkerTest, MarksAtOnceWithoutAPass) {
  Start(0);
  CutNow();
  EXPECT_EQ(oracle_->num_told(), 0u);
  Pass pass(marker_.get(), 2, 2, 3);
  pass.Run(2, 5);
  pass.End();
  CutNow();
  EXPECT_EQ(oracle_->num_told(), 10u);
}

TEST_F(CutMarkerTest, SlotsOfALaterPassBeginWithTheCut) {
  Start(0);
  CutNow();
  Pass pass(marker_.get(), 1, 1, 1);
  EXPECT_EQ(marker_->cut(), 1u);
  // Refused by the oracle if it carried less.
  pass.Run(1, 3);
  pass.End();
}

TEST_F(CutMarkerTest, WhatWasTrainedAfterTheLastMarkIsToldForTheNextCut) {
  Start(0);
  Pass pass(marker_.get(), 2, 2, 3);
  pass.Run(2, 7);
  CutNow();
  pass.Run(2, 4);
  pass.End();
  EXPECT_EQ(oracle_->num_told(), 14u);
  ASSERT_TRUE(marker_->ReportRest().ok());
  EXPECT_EQ(oracle_->num_told(), 22u);
  CutNow();
  EXPECT_EQ(oracle_->num_told(), 22u);
}

TEST_F(CutMarkerTest, ExamplesOfAMarkThatFailedAreToldWithTheNext) {
  Start(0);
  Pass pass(marker_.get(), 1, 2, 2);
  pass.Run(1, 5);
  refuse_mark_ = true;
  oracle_->OpenCut();
  servers_->Tell();
  ASSERT_TRUE(Eventually([&] { return !refuse_mark_; }));
  CutNow();
  EXPECT_EQ(oracle_->num_told(), 5u);
  pass.End();
}

TEST_F(CutMarkerTest, NothingIsToldAfterAPushThatFailed) {
  Start(0);
  Pass pass(marker_.get(), 1, 2, 2);
  pass.Run(1, 3);
  servers_->FailNext();
  pass.Run(1, 1);
  pass.End(/*failed=*/true);
  EXPECT_TRUE(marker_->ReportRest().ok());
  EXPECT_EQ(oracle_->num_told(), 0u);
}

TEST_F(CutMarkerTest, NothingIsToldWhenDenseGradientsWereDropped) {
  Start(0);
  Pass pass(marker_.get(), 1, 2, /*interval=*/5);
  pass.Run(1, 3);
  pass.End(/*failed=*/true);
  EXPECT_TRUE(marker_->ReportRest().ok());
  EXPECT_EQ(oracle_->num_told(), 0u);
}

TEST_F(CutMarkerTest, MarkWaitsForARoundThatThisWorkerTakesPartIn) {
  for (uint64_t seed = 1; seed <= 20; ++seed) {
    SCOPED_TRACE(absl::StrCat("seed ", seed));
    RandomSequence random(seed);
    // Rounds that marks have told; one example each.
    absl::Mutex mutex;
    std::vector<std::pair<uint64_t, uint64_t>> told;
    uint64_t marked = 0;
    CutOracle oracle(0);
    Servers servers(&oracle, seed);
    CuttingJob job([&](uint64_t cut,
                       const std::vector<v1::TrainedExamples>& trained) {
      absl::MutexLock lock(&mutex);
      marked = cut;
      for (const v1::TrainedExamples& work : trained) {
        for (const v1::WorkRange& range : work.ranges()) {
          told.emplace_back(range.begin(), range.end());
        }
      }
      return absl::OkStatus();
    });
    CutMarker marker(&servers, &job, CutMarker::Order::kByRound);
    marker.JoinedRounds(0);
    uint64_t round = 0;
    const auto push_round = [&] {
      ++round;
      PushRequest push;
      push.round = round;
      push.examples.push_back({0, round, round + 1});
      ASSERT_TRUE(CallAndWait([&](ParameterClient::Done done) {
                    marker.Push(kWork, push, nullptr, nullptr,
                                std::move(done));
                  }).ok());
    };
    const auto expect_told = [&](uint64_t cut, uint64_t begin, uint64_t end) {
      ASSERT_TRUE(Eventually([&] {
        absl::MutexLock lock(&mutex);
        return marked == cut;
      }));
      absl::MutexLock lock(&mutex);
      if (begin == end) {
        EXPECT_TRUE(told.empty());
      } else {
        ASSERT_EQ(told.size(), 1u);
        EXPECT_EQ(told[0], std::pair(begin, end));
      }
      told.clear();
    };
    uint64_t told_through = 0;
    for (uint64_t cut = 1; cut <= 6; ++cut) {
      const uint64_t last = round + random.Below(4);
      job.Heartbeat(cut, 0);  // not known yet
      job.Heartbeat(cut, last);
      while (round < last) {
        {
          absl::MutexLock lock(&mutex);
          EXPECT_EQ(marked, cut - 1);
        }
        push_round();
      }
      if (last == 0) {
        // There is no such round: the next heartbeat knows.
        push_round();
        job.Heartbeat(cut, 1);
        expect_told(cut, 1, 2);
        told_through = 1;
        continue;
      }
      expect_told(cut, told_through + 1, last + 1);
      told_through = last;
      for (uint64_t more = random.Below(3); more > 0; --more) push_round();
    }
    push_round();
    // Others go on; this worker has no part in it.
    marker.LeftRounds();
    job.Heartbeat(7, round + 3);
    expect_told(7, told_through + 1, round + 1);
  }
}

// Rounds 1 to 5 are done when the worker says what is left to say; it has heard
// of no cut so far.
TEST_F(CutMarkerTest, TheRestLiesBehindACutThatWasOpenedSinceTheLastHeartbeat) {
  using Told = std::pair<uint64_t, std::pair<uint64_t, uint64_t>>;
  const struct {
    std::deque<std::pair<uint64_t, uint64_t>> said;
    // Cut, first round, end of the rounds.
    std::vector<Told> told;
  } kCases[] = {
      // No cut is open.
      {{{0, 0}}, {{1, {1, 6}}}},
      // One is, and it ends with round 3.
      {{{1, 3}}, {{1, {1, 4}}, {2, {4, 6}}}},
      // The same; its round is known only later.
      {{{1, 0}, {1, 0}, {1, 3}}, {{1, {1, 4}}, {2, {4, 6}}}},
      // All rounds lie before it.
      {{{1, 5}}, {{1, {1, 6}}}},
      // It was made before any round, or given up: none of them is in it.
      {{{1, 0}}, {{2, {1, 6}}}},
  };
  for (const auto& [said, expected] : kCases) {
    SCOPED_TRACE(absl::StrCat(said.front().first, " ", said.back().second));
    absl::Mutex mutex;
    std::vector<Told> told;
    CutOracle oracle(0);
    Servers servers(&oracle, 1);
    CuttingJob job([&](uint64_t cut,
                       const std::vector<v1::TrainedExamples>& trained) {
      absl::MutexLock lock(&mutex);
      for (const v1::TrainedExamples& work : trained) {
        for (const v1::WorkRange& range : work.ranges()) {
          told.push_back({cut, {range.begin(), range.end()}});
        }
      }
      return absl::OkStatus();
    });
    CutMarker marker(&servers, &job, CutMarker::Order::kByRound);
    marker.JoinedRounds(0);
    for (uint64_t round = 1; round <= 5; ++round) {
      PushRequest push;
      push.round = round;
      push.examples.push_back({0, round, round + 1});
      ASSERT_TRUE(CallAndWait([&](ParameterClient::Done done) {
                    marker.Push(kWork, push, nullptr, nullptr, std::move(done));
                  }).ok());
    }
    marker.LeftRounds();
    job.Say(said);
    ASSERT_TRUE(marker.ReportRest().ok());
    absl::MutexLock lock(&mutex);
    EXPECT_EQ(told, expected);
  }
}

}  // namespace
}  // namespace oarlock
