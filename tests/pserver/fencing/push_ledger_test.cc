#include "pserver/fencing/push_ledger.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <atomic>
#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/match.h"
#include "absl/synchronization/mutex.h"
#include "base/random.h"
#include "pserver/fencing/worker_fences.h"
#include "tests/pserver/fencing/ledger_testing.h"

namespace oarlock::pserver {
namespace {

constexpr uint32_t kNumWorkers = 3;

v1::RequestHeader HeaderOf(uint32_t worker, uint64_t generation,
                           uint64_t sequence, uint32_t message_index = 0) {
  v1::RequestHeader header;
  header.set_worker_index(worker);
  header.set_worker_generation(generation);
  header.set_sequence(sequence);
  header.set_message_index(message_index);
  header.set_message_count(8);
  *header.add_examples() = IntervalOf({}, sequence * 10, sequence * 10 + 10);
  return header;
}

v1::RequestHeader CompletionOf(uint32_t worker, uint64_t generation,
                               uint64_t sequence, uint32_t by,
                               uint64_t by_generation) {
  v1::RequestHeader header = HeaderOf(worker, generation, sequence);
  header.set_completing_worker(by);
  header.set_completing_generation(by_generation);
  return header;
}

class PushLedgerTest : public ::testing::Test {
 protected:
  PushLedgerTest() : fences_(kNumWorkers), ledger_(&fences_) {}

  absl::StatusOr<PushLedger::Message> Admit(v1::RequestHeader header) {
    PushLedger::Message message;
    const absl::Status status = ledger_.Admit(&header, &message);
    if (!status.ok()) return status;
    return message;
  }
  void Apply(v1::RequestHeader header) {
    absl::StatusOr<PushLedger::Message> message = Admit(std::move(header));
    ASSERT_TRUE(message.ok()) << message.status();
    message->Applied();
  }
  void Replay(v1::RequestHeader header) {
    PushLedger::Message message;
    ledger_.Readmit(&header, &message);
    message.Applied();
  }
  std::optional<v1::WorkerLedger> Collect(uint32_t worker,
                                          uint64_t generation) {
    return ledger_.Collect(WorkerIndex(worker), Generation(generation));
  }
  bool Forget(uint32_t worker, uint64_t last) {
    return ledger_.Forget(WorkerIndex(worker), Generation(last));
  }
  void Lose(uint32_t worker, uint64_t generation) {
    fences_.Update(StateOf(worker, generation, v1::WorkerState::LOST));
  }

  WorkerFences fences_;
  PushLedger ledger_;
};

TEST_F(PushLedgerTest, ALedgerIsCollectedOnceItsIncarnationIsFenced) {
  Apply(HeaderOf(1, 4, 1, 2));
  EXPECT_FALSE(Collect(1, 4).has_value());
  Lose(1, 4);
  const std::optional<v1::WorkerLedger> ledger = Collect(1, 4);
  ASSERT_TRUE(ledger.has_value());
  EXPECT_EQ(ledger->ShortDebugString(),
            "worker { worker_index: 1 worker_generation: 4 } highest: 1 "
            "pushes { sequence: 1 examples { begin: 10 end: 20 } "
            "message_count: 8 messages: 2 }");
  EXPECT_EQ(Admit(HeaderOf(1, 4, 2)).status().code(),
            absl::StatusCode::kAborted);
}

TEST_F(PushLedgerTest, AWorkerThatNeverPushedHasAnEmptyLedger) {
  Lose(0, 9);
  EXPECT_EQ(Collect(0, 9)->ShortDebugString(),
            "worker { worker_generation: 9 }");
}

TEST_F(PushLedgerTest, StrangersHaveNoLedger) {
  EXPECT_FALSE(Collect(kNumWorkers, 1).has_value());
  EXPECT_FALSE(Collect(0, 0).has_value());
  EXPECT_EQ(Admit(HeaderOf(kNumWorkers, 1, 1)).status().code(),
            absl::StatusCode::kInvalidArgument);
  EXPECT_EQ(Admit(HeaderOf(0, 0, 1)).status().code(),
            absl::StatusCode::kInvalidArgument);
}

TEST_F(PushLedgerTest, ALedgerWaitsForPushesThatAreUnderWay) {
  absl::StatusOr<PushLedger::Message> first = Admit(HeaderOf(0, 1, 1));
  absl::StatusOr<PushLedger::Message> second = Admit(HeaderOf(0, 1, 2));
  ASSERT_TRUE(first.ok() && second.ok());
  Lose(0, 1);
  EXPECT_FALSE(Collect(0, 1).has_value());
  PushLedger::Message moved = *std::move(first);
  moved.Applied();
  moved.Applied();  // Told already: no effect.
  EXPECT_FALSE(Collect(0, 1).has_value());
  second->Drop();
  const std::optional<v1::WorkerLedger> ledger = Collect(0, 1);
  ASSERT_TRUE(ledger.has_value());
  ASSERT_EQ(ledger->pushes_size(), 1);
  EXPECT_EQ(ledger->pushes(0).sequence(), 1u);
}

TEST_F(PushLedgerTest, SuccessorsPushesAreNotItsPredecessors) {
  Apply(HeaderOf(2, 1, 5));
  Apply(HeaderOf(2, 3, 1));  // Fences generation 1.
  ASSERT_TRUE(Collect(2, 1).has_value());
  EXPECT_EQ(Collect(2, 1)->highest(), 5u);
  EXPECT_FALSE(Collect(2, 3).has_value());
  EXPECT_TRUE(Forget(2, 2));
  Lose(2, 3);
  EXPECT_EQ(Collect(2, 3)->highest(), 1u);
}

TEST_F(PushLedgerTest, AFailedPushMayBeThereByHalves) {
  Admit(HeaderOf(0, 1, 3))->Partial();
  Lose(0, 1);
  const v1::WorkerLedger ledger = *Collect(0, 1);
  ASSERT_EQ(ledger.pushes_size(), 1);
  EXPECT_EQ(ledger.pushes(0).sequence(), 3u);
  EXPECT_TRUE(ledger.pushes(0).messages().empty());
}

TEST_F(PushLedgerTest, RoundsHaveNoLedger) {
  v1::RequestHeader header = HeaderOf(0, 1, 1);
  header.set_round(1);
  Apply(header);
  absl::StatusOr<PushLedger::Message> held = Admit(header);
  Lose(0, 1);
  ASSERT_TRUE(Collect(0, 1).has_value());
  EXPECT_EQ(Collect(0, 1)->highest(), 0u);
}

TEST_F(PushLedgerTest, ACompletionIsOfNoLedger) {
  Apply(HeaderOf(0, 1, 1));
  Lose(0, 1);
  absl::StatusOr<PushLedger::Message> completion =
      Admit(CompletionOf(0, 1, 2, 1, 7));
  ASSERT_TRUE(completion.ok()) << completion.status();
  EXPECT_EQ(Collect(0, 1)->highest(), 1u) << "it is not waited for";
  completion->Applied();
  EXPECT_EQ(Collect(0, 1)->highest(), 1u);
  Lose(1, 7);
  EXPECT_EQ(Collect(1, 7)->highest(), 0u);
}

TEST_F(PushLedgerTest, OnlyWhoMayPushCompletesAndOnlyWhatIsFenced) {
  const auto expect = [&](const v1::RequestHeader& header,
                          absl::StatusCode code, const std::string& fragment) {
    const absl::Status status = Admit(header).status();
    EXPECT_EQ(status.code(), code);
    EXPECT_TRUE(absl::StrContains(status.message(), fragment)) << status;
    EXPECT_FALSE(absl::StrContains(status.message(), "\n")) << status;
  };
  Apply(HeaderOf(0, 3, 1));
  expect(CompletionOf(0, 3, 2, 1, 7), absl::StatusCode::kFailedPrecondition,
         "worker 1 completes push 2 of worker 0 generation 3, which may still");
  // Nobody has heard of it, so nobody has fenced it.
  expect(CompletionOf(0, 4, 2, 1, 7), absl::StatusCode::kFailedPrecondition,
         "generation 4");
  expect(CompletionOf(kNumWorkers, 4, 2, 1, 7),
         absl::StatusCode::kInvalidArgument, "worker 3 generation 4");
  expect(CompletionOf(0, 0, 2, 1, 7), absl::StatusCode::kInvalidArgument,
         "generation 0");
  Lose(0, 3);
  EXPECT_TRUE(Admit(CompletionOf(0, 3, 2, 1, 7)).ok());
  // By its own successor too.
  EXPECT_TRUE(Admit(CompletionOf(0, 3, 2, 0, 4)).ok());
  Lose(1, 7);
  expect(CompletionOf(0, 3, 2, 1, 7), absl::StatusCode::kAborted,
         "taken for dead");
  EXPECT_TRUE(Forget(0, 3));
  expect(CompletionOf(0, 3, 2, 0, 4), absl::StatusCode::kAborted,
         "is accounted for");
}

TEST_F(PushLedgerTest, NothingIsForgottenWhileAMessageIsUnderWay) {
  absl::StatusOr<PushLedger::Message> push = Admit(HeaderOf(0, 1, 1));
  Lose(0, 1);
  absl::StatusOr<PushLedger::Message> completion =
      Admit(CompletionOf(0, 1, 1, 1, 7));
  EXPECT_FALSE(Forget(0, 1));
  // No more of them begin.
  EXPECT_EQ(Admit(CompletionOf(0, 1, 1, 1, 7)).status().code(),
            absl::StatusCode::kAborted);
  push->Applied();
  EXPECT_FALSE(Forget(0, 1));
  completion->Applied();
  EXPECT_TRUE(Forget(0, 1));
  EXPECT_TRUE(Forget(0, 1));
  EXPECT_FALSE(Collect(0, 1).has_value());
  EXPECT_TRUE(Forget(kNumWorkers, 1));
}

TEST_F(PushLedgerTest, ReplayedPushesAreApplied) {
  Replay(HeaderOf(0, 1, 1));
  Replay(CompletionOf(0, 1, 2, 1, 7));
  Replay(HeaderOf(kNumWorkers, 1, 1));
  Lose(0, 1);
  EXPECT_EQ(Collect(0, 1)->highest(), 1u);
}

// What each incarnation was told to be applied, as the ledgers have it.
using Messages = std::map<uint64_t, std::set<uint32_t>>;

Messages MessagesOf(const v1::WorkerLedger& ledger) {
  Messages messages;
  for (const v1::PushRecord& push : ledger.pushes()) {
    messages[push.sequence()].insert(push.messages().begin(),
                                     push.messages().end());
  }
  return messages;
}

// Random calls, each push under way for a while.
TEST_F(PushLedgerTest, RandomCallsAgreeWithAModel) {
  struct UnderWay {
    v1::RequestHeader header;
    std::unique_ptr<PushLedger::Message> message =
        std::make_unique<PushLedger::Message>();
  };
  for (uint64_t seed = 1; seed <= 20; ++seed) {
    SCOPED_TRACE(testing::Message() << "seed " << seed);
    RandomSequence random(seed);
    WorkerFences fences(kNumWorkers);
    PushLedger ledger(&fences);
    std::vector<UnderWay> under_way;
    // By worker: the newest generation, whether it is closed; what is
    // forgotten.
    std::vector<uint64_t> newest(kNumWorkers, 1), forgotten(kNumWorkers, 0);
    std::vector<bool> closed(kNumWorkers, false);
    std::map<std::pair<uint32_t, uint64_t>, Messages> applied;
    const auto is_fenced = [&](uint32_t worker, uint64_t generation) {
      return generation < newest[worker] ||
             (generation == newest[worker] && closed[worker]);
    };
    const auto count = [&](uint32_t worker, uint64_t last, bool completions) {
      int n = 0;
      for (const UnderWay& one : under_way) {
        n += one.header.worker_index() == worker &&
             one.header.worker_generation() <= last &&
             (completions || one.header.completing_generation() == 0);
      }
      return n;
    };
    for (int step = 0; step < 5000; ++step) {
      const uint32_t worker = random.Below(kNumWorkers);
      const uint64_t generation =
          newest[worker] - std::min(newest[worker] - 1, random.Below(3));
      switch (random.Below(12)) {
        case 0:  // A successor registers, or the worker is lost.
          if (random.Below(8) != 0) break;
          if (random.Below(2) == 0) {
            ++newest[worker];
            closed[worker] = false;
          } else {
            closed[worker] = true;
          }
          fences.Update(StateOf(
              worker, newest[worker],
              closed[worker] ? v1::WorkerState::LOST : v1::WorkerState::ALIVE));
          break;
        case 1: {
          const std::optional<v1::WorkerLedger> collected =
              ledger.Collect(WorkerIndex(worker), Generation(generation));
          const int pushes = count(worker, generation, false) -
                             count(worker, generation - 1, false);
          ASSERT_EQ(collected.has_value(), is_fenced(worker, generation) &&
                                               pushes == 0 &&
                                               generation > forgotten[worker]);
          if (!collected.has_value()) break;
          ASSERT_EQ(MessagesOf(*collected), (applied[{worker, generation}]));
          break;
        }
        case 2:
          if (random.Below(4) != 0 || !is_fenced(worker, generation)) break;
          forgotten[worker] = std::max(forgotten[worker], generation);
          ASSERT_EQ(ledger.Forget(WorkerIndex(worker), Generation(generation)),
                    count(worker, generation, true) == 0);
          break;
        case 3:
        case 4:
        case 5:
        case 6: {
          if (under_way.empty()) break;
          const size_t i = random.Below(under_way.size());
          std::swap(under_way[i], under_way.back());
          UnderWay one = std::move(under_way.back());
          under_way.pop_back();
          const v1::RequestHeader& header = one.header;
          if (random.Below(4) == 0) break;  // Dropped.
          if (header.completing_generation() == 0) {
            applied[{header.worker_index(), header.worker_generation()}]
                   [header.sequence()]
                       .insert(header.message_index());
          }
          one.message->Applied();
          break;
        }
        default: {
          if (under_way.size() > 20) break;
          const uint64_t sequence = 1 + random.Below(60);
          UnderWay one;
          one.header = HeaderOf(worker, generation, sequence, random.Below(8));
          uint32_t sender = worker;
          uint64_t sender_generation = generation;
          const bool completes = random.Below(4) == 0;
          if (completes) {
            sender = random.Below(kNumWorkers);
            sender_generation = newest[sender];
            one.header.set_completing_worker(sender);
            one.header.set_completing_generation(sender_generation);
          }
          v1::RequestHeader header = one.header;
          const absl::Status status = ledger.Admit(&header, one.message.get());
          ASSERT_EQ(status.ok(),
                    !is_fenced(sender, sender_generation) &&
                        (!completes || (is_fenced(worker, generation) &&
                                        generation > forgotten[worker])))
              << status;
          if (!status.ok()) break;
          under_way.push_back(std::move(one));
        }
      }
    }
  }
}

// Whatever the interleaving: what a ledger has when it is collected is all
// that was applied and will ever be.
TEST_F(PushLedgerTest, ACollectedLedgerIsFinalUnderConcurrency) {
  constexpr uint64_t kNumGenerations = 200;
  constexpr int kNumThreads = 3;
  std::atomic<uint64_t> current{1};
  absl::Mutex mutex;
  std::map<uint64_t, Messages> applied;
  std::vector<std::thread> threads;
  for (int t = 0; t < kNumThreads; ++t) {
    threads.emplace_back([&, t] {
      uint64_t sequence = 1;
      uint64_t last = 0;
      while (true) {
        const uint64_t generation = current.load();
        if (generation > kNumGenerations) return;
        sequence = generation == last ? sequence + 1 : 1;
        last = generation;
        if (sequence > 60) {
          std::this_thread::yield();
          continue;
        }
        absl::StatusOr<PushLedger::Message> message =
            Admit(HeaderOf(0, generation, sequence, t));
        if (!message.ok()) continue;
        {
          absl::MutexLock lock(&mutex);
          applied[generation][sequence].insert(t);
        }
        message->Applied();
      }
    });
  }
  // Only compared in the end: a later push would show then.
  std::map<uint64_t, Messages> collected;
  for (uint64_t generation = 1; generation <= kNumGenerations; ++generation) {
    const auto has_applied = [&] {
      absl::MutexLock lock(&mutex);
      return applied.count(generation) > 0;
    };
    while (!has_applied()) std::this_thread::yield();
    Lose(0, generation);
    std::optional<v1::WorkerLedger> ledger;
    while (!ledger.has_value()) ledger = Collect(0, generation);
    collected[generation] = MessagesOf(*ledger);
    // Refused pushes may be under way still.
    while (generation % 2 == 0 && !Forget(0, generation)) {
    }
    current.store(generation + 1);
  }
  for (std::thread& thread : threads) thread.join();
  for (uint64_t generation = 1; generation <= kNumGenerations; ++generation) {
    EXPECT_EQ(collected[generation], applied[generation]) << generation;
  }
}

}  // namespace
}  // namespace oarlock::pserver
