#include "coordinator/dead_worker_recovery.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cstdint>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "base/random.h"
#include "coordinator/ranges/range_set.h"
#include "tests/coordinator/death_model.h"

namespace oarlock::coordinator {
namespace {

constexpr uint32_t kEpoch = 3;

v1::DataRange Range(uint64_t begin, uint64_t end, uint64_t byte_offset = 0,
                    uint64_t skip_lines = 0) {
  v1::DataRange range;
  range.set_source(1);
  range.set_begin(begin);
  range.set_end(end);
  range.set_byte_offset(byte_offset);
  range.set_skip_lines(skip_lines);
  return range;
}

void Add(uint64_t begin, uint64_t end,
         google::protobuf::RepeatedPtrField<v1::ExampleInterval>* to) {
  v1::ExampleInterval* const interval = to->Add();
  interval->set_source(1);
  interval->set_begin(begin);
  interval->set_end(end);
  interval->set_epoch(kEpoch);
}

// A push of rows and dense gradients of the same examples.
v1::PushRecord Record(uint64_t sequence, uint64_t begin, uint64_t end,
                      uint32_t message_count, std::vector<uint32_t> messages) {
  v1::PushRecord record;
  record.set_sequence(sequence);
  Add(begin, end, record.mutable_examples());
  Add(begin, end, record.mutable_dense_examples());
  record.set_message_count(message_count);
  for (uint32_t message : messages) record.add_messages(message);
  return record;
}

std::string Text(const std::vector<v1::DataRange>& ranges) {
  std::string text;
  for (const v1::DataRange& range : ranges) {
    absl::StrAppend(&text, range.begin(), "-", range.end(), "@",
                    range.byte_offset(), "+", range.skip_lines(), " ");
  }
  return text;
}
std::string Text(const google::protobuf::RepeatedPtrField<v1::DataRange>& r) {
  return Text(std::vector<v1::DataRange>(r.begin(), r.end()));
}

class DeadWorkerRecoveryTest : public ::testing::Test {
 protected:
  DeadWorkerRecoveryTest() {
    dead_.worker = WorkerIndex(2);
    dead_.generation = Generation(7);
    dead_.ledgers.resize(2);
    for (v1::WorkerLedger& ledger : dead_.ledgers) ledger.set_highest(1);
  }
  void Lease(const v1::DataRange& range) {
    dead_.leased[kEpoch].ranges.push_back(range);
  }
  void Tell(int server, const v1::PushRecord& record) {
    v1::WorkerLedger& ledger = dead_.ledgers[server];
    ledger.set_highest(std::max<uint64_t>(ledger.highest(), record.sequence()));
    *ledger.add_pushes() = record;
  }
  RecoveredEpoch Recover() { return RecoverExamples(dead_)[kEpoch]; }

  DeadWorker dead_;
};

TEST_F(DeadWorkerRecoveryTest, WhatNobodyHasSeenIsReturnedWithItsPlace) {
  Lease(Range(0, 100, 9, 4));
  Lease(Range(500, 0, 77, 1));
  Tell(0, Record(1, 20, 40, 2, {0}));
  Tell(1, Record(1, 20, 40, 2, {1}));
  Tell(1, Record(2, 500, 510, 1, {0}));
  const RecoveredEpoch of_epoch = Recover();
  EXPECT_EQ(Text(of_epoch.returned), "0-20@9+4 40-100@9+44 510-0@77+11 ");
  EXPECT_EQ(Text(of_epoch.covered), "20-40@0+0 500-510@0+0 ");
  EXPECT_TRUE(of_epoch.push_completions.empty());
}

TEST_F(DeadWorkerRecoveryTest, APartialPushIsCompletedUnderItsName) {
  Lease(Range(0, 30, 5));
  Lease(Range(30, 100, 6));
  Tell(0, Record(4, 20, 40, 3, {0}));
  Tell(1, Record(4, 20, 40, 3, {2}));
  const RecoveredEpoch of_epoch = Recover();
  ASSERT_EQ(of_epoch.push_completions.size(), 1u);
  const v1::PushCompletion& completion = of_epoch.push_completions[0];
  EXPECT_EQ(completion.worker().worker_index(), 2u);
  EXPECT_EQ(completion.worker().worker_generation(), 7u);
  EXPECT_EQ(completion.sequence(), 4u);
  EXPECT_EQ(Text(completion.examples()), "20-30@5+20 30-40@6+0 ");
  EXPECT_EQ(Text(completion.dense_examples()), "20-30@5+20 30-40@6+0 ");
  EXPECT_EQ(Text(of_epoch.returned), "0-20@5+0 40-100@6+10 ");
  EXPECT_EQ(Text(of_epoch.covered), "20-40@0+0 ");
}

TEST_F(DeadWorkerRecoveryTest, APushWithoutAWholeMessageIsCompletedToo) {
  Lease(Range(0, 100));
  Tell(1, Record(3, 60, 70, 2, {}));
  const RecoveredEpoch of_epoch = Recover();
  ASSERT_EQ(of_epoch.push_completions.size(), 1u);
  EXPECT_EQ(of_epoch.push_completions[0].sequence(), 3u);
  EXPECT_EQ(Text(of_epoch.returned), "0-60@0+0 70-100@0+70 ");
}

TEST_F(DeadWorkerRecoveryTest, PushesBelowTheWindowOrWholeOrDoneAreApplied) {
  Lease(Range(0, 10));
  Lease(Range(20, 100, 0, 20));
  Tell(0, Record(1, 0, 10, 2, {0}));
  // Of what it has marked, and of a lease that it has said is done.
  Tell(0, Record(2, 10, 20, 2, {0}));
  Tell(0, Record(3, 200, 210, 2, {0}));
  Tell(1, Record(65, 20, 30, 2, {0, 1}));
  Add(30, 40, dead_.ledgers[1].mutable_fully_applied_examples());
  Add(30, 40, dead_.ledgers[1].mutable_fully_applied_dense_examples());
  RecoveredEpoch of_epoch = Recover();
  EXPECT_TRUE(of_epoch.push_completions.empty());
  EXPECT_EQ(Text(of_epoch.covered), "0-40@0+0 200-210@0+0 ");
  EXPECT_EQ(Text(of_epoch.returned), "40-100@0+40 ");
  // One less, and the first one is in the window.
  dead_.ledgers[1].set_highest(64);
  dead_.ledgers[1].mutable_pushes(0)->set_sequence(64);
  of_epoch = Recover();
  ASSERT_EQ(of_epoch.push_completions.size(), 1u);
  EXPECT_EQ(of_epoch.push_completions[0].sequence(), 1u);
}

TEST_F(DeadWorkerRecoveryTest, HalfOfTheGradientsAreCompletedWithoutAName) {
  Lease(Range(0, 100, 8));
  v1::PushRecord rows = Record(1, 0, 30, 1, {0});
  rows.clear_dense_examples();
  v1::PushRecord dense = Record(2, 20, 50, 1, {0});
  dense.clear_examples();
  Tell(0, rows);
  Tell(1, dense);
  const RecoveredEpoch of_epoch = Recover();
  ASSERT_EQ(of_epoch.push_completions.size(), 2u);
  for (const v1::PushCompletion& completion : of_epoch.push_completions) {
    EXPECT_FALSE(completion.has_worker());
  }
  EXPECT_EQ(Text(of_epoch.push_completions[0].examples()), "30-50@8+30 ");
  EXPECT_EQ(of_epoch.push_completions[0].dense_examples_size(), 0);
  EXPECT_EQ(of_epoch.push_completions[1].examples_size(), 0);
  EXPECT_EQ(Text(of_epoch.push_completions[1].dense_examples()), "0-20@8+0 ");
  EXPECT_EQ(Text(of_epoch.returned), "50-100@8+50 ");
  EXPECT_EQ(Text(of_epoch.covered), "0-50@0+0 ");
}

TEST_F(DeadWorkerRecoveryTest, ACompletersDeathKeepsTheRestriction) {
  v1::PushCompletion completion;
  *completion.add_examples() = Range(0, 30, 8);
  dead_.leased[kEpoch].push_completions.push_back(completion);
  completion.Clear();
  *completion.add_dense_examples() = Range(30, 60, 9);
  dead_.leased[kEpoch].push_completions.push_back(completion);
  v1::PushRecord partial = Record(1, 0, 10, 2, {1});
  partial.clear_dense_examples();
  Tell(0, partial);
  const RecoveredEpoch of_epoch = Recover();
  EXPECT_TRUE(of_epoch.returned.empty());
  ASSERT_EQ(of_epoch.push_completions.size(), 3u);
  EXPECT_EQ(of_epoch.push_completions[0].sequence(), 1u);
  EXPECT_EQ(Text(of_epoch.push_completions[0].examples()), "0-10@8+0 ");
  EXPECT_EQ(of_epoch.push_completions[0].dense_examples_size(), 0);
  EXPECT_EQ(Text(of_epoch.push_completions[1].examples()), "10-30@8+10 ");
  EXPECT_EQ(Text(of_epoch.push_completions[2].dense_examples()), "30-60@9+0 ");
}

TEST_F(DeadWorkerRecoveryTest, LongPushCompletionsAreDivided) {
  Lease(Range(0, 0, 8));
  v1::PushRecord rows = Record(1, 0, 2 * kMaxCompletionExamples + 1, 1, {0});
  rows.clear_dense_examples();
  Tell(0, rows);
  const RecoveredEpoch of_epoch = Recover();
  ASSERT_EQ(of_epoch.push_completions.size(), 3u);
  EXPECT_EQ(Text(of_epoch.push_completions[1].dense_examples()),
            "4096-8192@8+4096 ");
  EXPECT_EQ(Text(of_epoch.push_completions[2].dense_examples()),
            "8192-8193@8+8192 ");
}

// A chain of incarnations, each of which has all that its predecessor left, and
// dies in the middle of it but for the last one.
class Chain {
 public:
  explicit Chain(uint64_t seed)
      : random_(seed), servers_(1 + static_cast<uint32_t>(random_.Below(4))) {
    for (const v1::DataRange& range : DefinedRanges()) Own(range);
  }

  void Run() {
    const uint64_t deaths = 1 + random_.Below(6);
    for (uint64_t generation = 1; generation <= deaths; ++generation) {
      Start(generation);
      const uint64_t turns = random_.Below(1500);
      for (uint64_t turn = 0; turn < turns; ++turn) Turn();
      Die();
    }
    Start(deaths + 1);
    for (int turn = 0; turn < 100'000 && !worker_->Idle(); ++turn) Turn();
    ASSERT_TRUE(worker_->Idle());
    for (uint64_t example = 0; example < kExamples; ++example) {
      ASSERT_TRUE(servers_.WasApplied(example, 1)) << "example " << example;
    }
  }

  // What happened in it, so that a test can see that it had all of it.
  std::map<std::string, int> happened;

 private:
  void Own(const v1::DataRange& range) { ranges_[++last_lease_] = range; }
  void Own(v1::PushCompletion completion) {
    completion.set_lease(++last_lease_);
    push_completions_[last_lease_] = completion;
  }

  void Start(uint64_t generation) {
    worker_.emplace(0, generation, cut_, &servers_, &random_);
    for (const auto& [lease, range] : ranges_) worker_->AddRange(range, lease);
    for (const auto& [lease, completion] : push_completions_) {
      worker_->AddPushCompletion(completion);
    }
  }

  void Turn() {
    if (!cut_is_open_ && push_completions_.empty() && random_.Below(100) == 0) {
      cut_is_open_ = true;
      ++cut_;
    }
    worker_->Turn(cut_, [this](uint32_t, uint64_t cut) {
      return cut_is_open_ && cut >= cut_ ? ModelWorker::Fate::kHold
                                         : ModelWorker::Fate::kApply;
    });
    if (const auto mark = worker_->TakeMark()) {
      for (uint64_t example : mark->examples) {
        v1::DataRange range;
        range.set_source(example / kSourceExamples);
        range.set_begin(example % kSourceExamples);
        range.set_end(range.begin() + 1);
        covered_.Add(range);
      }
      published_ = mark->cut;
      cut_is_open_ = false;
    }
    for (uint64_t lease : worker_->TakeDone()) {
      ranges_.erase(lease);
      push_completions_.erase(lease);
    }
  }

  void Die() {
    cut_is_open_ = false;
    for (uint64_t late = random_.Below(20); late > 0; --late) {
      worker_->Deliver([this](uint32_t, uint64_t) {
        return random_.Below(2) == 0 ? ModelWorker::Fate::kApply
                                     : ModelWorker::Fate::kRefuse;
      });
    }
    DeadWorker dead;
    dead.generation = Generation(worker_->generation());
    for (uint32_t server = 0; server < servers_.num_servers(); ++server) {
      if (random_.Below(3) == 0) servers_.Restart(server, published_);
      dead.ledgers.push_back(servers_.Ledger(server, 0, worker_->generation()));
    }
    LeasedExamples& leased = dead.leased[0];
    for (const auto& [lease, range] : ranges_) {
      for (const v1::DataRange& part : covered_.Missing(range)) {
        leased.ranges.push_back(part);
      }
    }
    std::map<uint64_t, v1::PushCompletion> named;
    for (const auto& [lease, completion] : push_completions_) {
      if (completion.has_worker()) {
        named[lease] = completion;
      } else {
        leased.push_completions.push_back(completion);
      }
    }
    ranges_.clear();
    push_completions_ = named;
    Take(RecoverExamples(dead)[0]);
  }

  void Take(const RecoveredEpoch& of_epoch) {
    for (const v1::DataRange& range : of_epoch.covered) covered_.Add(range);
    for (const v1::DataRange& range : of_epoch.returned) Own(range);
    for (const v1::PushCompletion& completion : of_epoch.push_completions) {
      Own(completion);
      if (!completion.has_worker()) continue;
      // Nothing is completed that is whole.
      ASSERT_FALSE(servers_.IsWhole(PushOf(completion)))
          << completion.ShortDebugString();
    }
    // Each example is applied, or goes to the queue, or to a push completion.
    const std::set<uint64_t> returned = ExampleSetOf(of_epoch.returned);
    std::set<uint64_t> completed;
    for (const auto& [lease, completion] : push_completions_) {
      completed.merge(ExampleSetOf(completion.examples()));
      completed.merge(ExampleSetOf(completion.dense_examples()));
      if (completion.has_worker()) {
        ++happened["partial"];
      } else {
        ++happened[completion.examples().empty() ? "dense alone"
                                                 : "rows alone"];
      }
    }
    happened["returned"] += returned.size();
    for (uint64_t example = 0; example < kExamples; ++example) {
      if (returned.contains(example)) {
        ASSERT_TRUE(servers_.WasApplied(example, 0)) << "example " << example;
        ASSERT_FALSE(completed.contains(example)) << "example " << example;
      } else if (!completed.contains(example)) {
        ASSERT_TRUE(servers_.WasApplied(example, 1)) << "example " << example;
        ++happened["applied"];
      }
    }
  }

  RandomSequence random_;
  ModelServers servers_;
  std::optional<ModelWorker> worker_;
  // By lease.
  std::map<uint64_t, v1::DataRange> ranges_;
  std::map<uint64_t, v1::PushCompletion> push_completions_;
  uint64_t last_lease_ = 0;
  RangeSet covered_;
  uint64_t cut_ = 0;
  bool cut_is_open_ = false;
  uint64_t published_ = 0;
};

TEST(DeadWorkerRecoveryModelTest,
     EveryGradientIsAppliedOnceOverChainsOfDeaths) {
  std::map<std::string, int> happened;
  for (uint64_t seed = 1; seed <= 200; ++seed) {
    SCOPED_TRACE(absl::StrCat("seed ", seed));
    Chain chain(seed);
    chain.Run();
    if (HasFatalFailure()) return;
    for (const auto& [what, times] : chain.happened) happened[what] += times;
  }
  for (const char* what :
       {"applied", "returned", "partial", "rows alone", "dense alone"}) {
    EXPECT_GT(happened[what], 100) << what;
    RecordProperty(what, happened[what]);
  }
}

}  // namespace
}  // namespace oarlock::coordinator
