#include "coordinator/step_clocks.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "base/random.h"

namespace oarlock::coordinator {
namespace {

using Change = v1::StepClockRequest;

v1::StepClockRequest Call(uint32_t worker, uint64_t generation,
                          uint64_t request, Change::Change change,
                          uint64_t finished = 0, uint64_t awaited = 0) {
  v1::StepClockRequest call;
  call.set_worker_index(worker);
  call.set_worker_generation(generation);
  call.set_request(request);
  call.set_change(change);
  call.set_finished(finished);
  call.set_awaited(awaited);
  return call;
}

absl::Time At(int64_t seconds) { return absl::FromUnixSeconds(seconds); }

class StepClocksTest : public ::testing::Test {
 protected:
  // Nothing while the call waits.
  using Outcome =
      std::shared_ptr<std::optional<absl::StatusOr<v1::StepClockResponse>>>;

  Outcome Make(const v1::StepClockRequest& call,
               absl::Time deadline = absl::InfiniteFuture()) {
    auto outcome = std::make_shared<
        std::optional<absl::StatusOr<v1::StepClockResponse>>>();
    Run(clocks_.Call(call, deadline,
                     [outcome](absl::StatusOr<v1::StepClockResponse> response) {
                       EXPECT_FALSE(outcome->has_value()) << "answered twice";
                       *outcome = std::move(response);
                     }));
    return outcome;
  }
  Outcome Join(uint32_t worker, uint64_t generation = 1) {
    return Make(Call(worker, generation, ++request_, Change::JOIN));
  }
  Outcome Report(uint32_t worker, uint64_t finished, uint64_t awaited = 0,
                 absl::Time deadline = absl::InfiniteFuture()) {
    return Make(Call(worker, 1, ++request_, Change::REPORT, finished, awaited),
                deadline);
  }
  void Leave(uint32_t worker) {
    Make(Call(worker, 1, ++request_, Change::LEAVE));
  }
  static void Run(StepClocks::Replies replies) {
    for (StepClocks::Reply& reply : replies) {
      reply.done(std::move(reply.response));
    }
  }
  static uint64_t SlowestOf(const Outcome& outcome) {
    if (!outcome->has_value() || !(*outcome)->ok()) {
      ADD_FAILURE() << "not answered, or not well";
      return 0;
    }
    return (**outcome)->slowest();
  }

  StepClocks clocks_;
  uint64_t request_ = 0;
};

TEST_F(StepClocksTest, NobodyIsSlowWhereNobodyCounts) {
  EXPECT_EQ(clocks_.Slowest(), StepClocks::kNobody);
  EXPECT_EQ(SlowestOf(Join(0)), 0u);
  Leave(0);
  EXPECT_EQ(clocks_.Slowest(), StepClocks::kNobody);
}

TEST_F(StepClocksTest, CallIsHeldUntilTheSlowestHasFinishedAsMany) {
  Join(0);
  Join(1);
  const Outcome waits = Report(0, 5, /*awaited=*/2);
  Report(1, 1);
  EXPECT_FALSE(waits->has_value());
  Report(1, 2);
  EXPECT_EQ(SlowestOf(waits), 2u);
  EXPECT_EQ((**waits)->finished(), 5u);
}

TEST_F(StepClocksTest, OneThatIsGoneOrHasLeftHoldsNobody) {
  for (const bool leaves : {false, true}) {
    Join(0);
    Join(1);
    const Outcome waits = Report(0, 7, /*awaited=*/7);
    EXPECT_FALSE(waits->has_value());
    if (leaves) {
      Leave(1);
    } else {
      Run(clocks_.Remove(WorkerIndex(1), absl::AbortedError("dead")));
    }
    EXPECT_EQ(SlowestOf(waits), 7u);
    Run(clocks_.Remove(WorkerIndex(0), absl::AbortedError("dead")));
  }
}

TEST_F(StepClocksTest, OneThatIsGoneHearsWhy) {
  Join(0);
  Join(1);
  const Outcome waits = Report(0, 7, /*awaited=*/7);
  Run(clocks_.Remove(WorkerIndex(0), absl::AbortedError("dead")));
  ASSERT_TRUE(waits->has_value());
  EXPECT_TRUE(absl::IsAborted((*waits)->status()));
}

TEST_F(StepClocksTest, LateComersBeginWhereTheSlowestIs) {
  Join(0);
  Join(1);
  Report(0, 9);
  Report(1, 6);
  const Outcome late = Join(2);
  EXPECT_EQ((**late)->finished(), 6u);
  EXPECT_EQ(clocks_.Slowest(), 6u);
}

TEST_F(StepClocksTest, SuccessorBeginsAnew) {
  Join(0);
  Join(1);
  Report(0, 9);
  Report(1, 3);
  Run(clocks_.Remove(WorkerIndex(1), absl::AbortedError("dead")));
  const Outcome successor = Make(Call(1, 2, 1, Change::JOIN));
  EXPECT_EQ((**successor)->finished(), 9u);
}

TEST_F(StepClocksTest, UnknownMemberJoinsWithItsReport) {
  EXPECT_EQ(SlowestOf(Report(0, 40)), 40u);
  EXPECT_EQ(SlowestOf(Report(1, 37)), 37u);
}

TEST_F(StepClocksTest, RepetitionsThatComeLateChangeNothing) {
  Join(0);
  const v1::StepClockRequest join = Call(1, 1, 1, Change::JOIN);
  const v1::StepClockRequest report = Call(1, 1, 2, Change::REPORT, 5);
  const v1::StepClockRequest leave = Call(1, 1, 3, Change::LEAVE);
  Make(join);
  Make(report);
  Report(0, 9);
  EXPECT_EQ(clocks_.Slowest(), 5u);
  Make(join);
  EXPECT_EQ(clocks_.Slowest(), 5u);
  Make(leave);
  for (const v1::StepClockRequest& late : {join, report}) {
    Make(late);
    EXPECT_EQ(clocks_.Slowest(), 9u);
  }
  Make(Call(1, 1, 4, Change::JOIN));
  Make(leave);
  EXPECT_EQ(clocks_.Slowest(), 9u);
  Report(0, 20);
  EXPECT_EQ(clocks_.Slowest(), 9u) << "the late repetition took it out";
}

TEST_F(StepClocksTest, ReportsCountInAnyOrder) {
  Make(Call(0, 1, 1, Change::JOIN));
  Make(Call(0, 1, 3, Change::REPORT, 4));
  Make(Call(0, 1, 2, Change::REPORT, 6));
  EXPECT_EQ(clocks_.Slowest(), 6u);
  Make(Call(0, 1, 5, Change::REPORT, 5));
  EXPECT_EQ(clocks_.Slowest(), 6u);
}

TEST_F(StepClocksTest, WaitEndsAtItsDeadlineWithWhatIsKnown) {
  Join(0);
  Join(1);
  const Outcome waits = Report(0, 3, /*awaited=*/3, At(10));
  Run(clocks_.Expire(At(9)));
  EXPECT_FALSE(waits->has_value());
  Run(clocks_.Expire(At(10)));
  EXPECT_EQ(SlowestOf(waits), 0u);
}

TEST_F(StepClocksTest, LaterWaitOfTheSameWorkerTakesItsPlace) {
  Join(0);
  Join(1);
  const Outcome first = Report(0, 3, /*awaited=*/1);
  const Outcome second = Report(0, 3, /*awaited=*/2);
  EXPECT_EQ(SlowestOf(first), 0u);
  EXPECT_FALSE(second->has_value());
}

TEST_F(StepClocksTest, EndingJobHoldsNobody) {
  Join(0);
  Join(1);
  const Outcome waits = Report(0, 3, /*awaited=*/3);
  Run(clocks_.ReleaseAll());
  EXPECT_EQ(SlowestOf(waits), StepClocks::kNobody);
}

// What was delivered, in order; everything is worked out anew from it.
class HistoryModel {
 public:
  void Deliver(const v1::StepClockRequest& call) {
    history_[call.worker_index()].push_back({call, Slowest()});
  }
  void Remove(uint32_t worker) { history_.erase(worker); }

  std::optional<uint64_t> Finished(uint32_t worker) const {
    const auto found = history_.find(worker);
    if (found == history_.end()) return std::nullopt;
    std::optional<uint64_t> finished;
    uint64_t newest = 0;
    for (const Delivered& entry : found->second) {
      const v1::StepClockRequest& call = entry.call;
      const bool reports = call.change() == Change::REPORT;
      if (reports && finished.has_value()) {
        finished = std::max(*finished, call.finished());
      }
      if (call.request() <= newest) continue;
      newest = call.request();
      if (call.change() == Change::LEAVE) {
        finished.reset();
      } else if (!finished.has_value()) {
        finished = reports                                ? call.finished()
                   : entry.slowest == StepClocks::kNobody ? 0
                                                          : entry.slowest;
      }
    }
    return finished;
  }
  uint64_t Slowest() const {
    uint64_t slowest = StepClocks::kNobody;
    for (const auto& [worker, calls] : history_) {
      slowest =
          std::min(slowest, Finished(worker).value_or(StepClocks::kNobody));
    }
    return slowest;
  }

 private:
  struct Delivered {
    v1::StepClockRequest call;
    uint64_t slowest;  // before it
  };
  std::map<uint32_t, std::vector<Delivered>> history_;
};

class StepClocksModelTest : public StepClocksTest,
                            public ::testing::WithParamInterface<uint64_t> {
 protected:
  static constexpr uint32_t kWorkers = 4;
  struct Worker {
    uint64_t generation = 0;
    uint64_t request = 0;
    uint64_t finished = 0;
    std::vector<v1::StepClockRequest> sent = {};
  };
  struct Wait {
    uint32_t worker;
    uint64_t awaited;
    absl::Time deadline;
    Outcome outcome;
  };

  v1::StepClockRequest NextCall(uint32_t index) {
    Worker& worker = workers_[index];
    // One in ten is a repetition.
    if (!worker.sent.empty() && random_.Below(10) == 0) {
      return worker.sent[random_.Below(worker.sent.size())];
    }
    const uint64_t kind = random_.Below(10);
    const Change::Change change = kind == 0   ? Change::JOIN
                                  : kind == 1 ? Change::LEAVE
                                              : Change::REPORT;
    worker.finished += random_.Below(3);
    worker.sent.push_back(Call(index, worker.generation, ++worker.request,
                               change, worker.finished));
    return worker.sent.back();
  }

  void Deliver(uint32_t index) {
    v1::StepClockRequest call = NextCall(index);
    if (call.change() == Change::REPORT && random_.Below(2) == 0) {
      call.set_awaited(call.finished() + random_.Below(4));
    }
    model_.Deliver(call);
    const absl::Time deadline = At(now_ + 1 + random_.Below(20));
    Wait wait{index, call.awaited(), deadline, Make(call, deadline)};
    // It takes the place of an earlier one, if it has to wait.
    if (model_.Slowest() < wait.awaited) {
      for (const Wait& earlier : waits_) {
        if (earlier.worker != index) continue;
        EXPECT_TRUE(earlier.outcome->has_value());
      }
      std::erase_if(waits_, [&](const Wait& w) { return w.worker == index; });
    }
    waits_.push_back(std::move(wait));
  }

  void Die(uint32_t index) {
    model_.Remove(index);
    Run(clocks_.Remove(WorkerIndex(index), absl::AbortedError("dead")));
    for (const Wait& wait : waits_) {
      if (wait.worker != index) continue;
      ASSERT_TRUE(wait.outcome->has_value());
      EXPECT_TRUE(absl::IsAborted((*wait.outcome)->status()));
    }
    std::erase_if(waits_, [&](const Wait& w) { return w.worker == index; });
    workers_[index] = {.generation = workers_[index].generation + 1};
  }

  // Whoever has to be answered is, nobody else.
  void Check() {
    const uint64_t slowest = model_.Slowest();
    ASSERT_EQ(clocks_.Slowest(), slowest);
    for (const Wait& wait : waits_) {
      const bool over = slowest >= wait.awaited || wait.deadline <= At(now_);
      ASSERT_EQ(wait.outcome->has_value(), over)
          << "awaits " << wait.awaited << ", slowest " << slowest;
      if (over) {
        EXPECT_EQ(SlowestOf(wait.outcome), slowest);
      }
    }
    std::erase_if(waits_, [](const Wait& w) { return w.outcome->has_value(); });
  }

  RandomSequence random_{GetParam()};
  HistoryModel model_;
  std::vector<Worker> workers_ =
      std::vector<Worker>(kWorkers, Worker{.generation = 1});
  std::vector<Wait> waits_;
  int64_t now_ = 0;
};

TEST_P(StepClocksModelTest, ResponsesAreThoseOfTheModel) {
  for (int i = 0; i < 400; ++i) {
    SCOPED_TRACE(absl::StrCat("seed ", GetParam(), ", call ", i));
    const auto index = static_cast<uint32_t>(random_.Below(kWorkers));
    const uint64_t kind = random_.Below(20);
    if (kind == 0) {
      Die(index);
    } else if (kind < 4) {
      now_ += static_cast<int64_t>(random_.Below(5));
      Run(clocks_.Expire(At(now_)));
    } else {
      Deliver(index);
    }
    Check();
    if (HasFatalFailure()) return;
  }
}

INSTANTIATE_TEST_SUITE_P(Seeds, StepClocksModelTest,
                         ::testing::Range<uint64_t>(1, 21));

}  // namespace
}  // namespace oarlock::coordinator
