#include "pserver/sync_aggregator.h"

#include <algorithm>
#include <deque>
#include <map>
#include <memory>
#include <string>
#include <thread>
#include <tuple>
#include <utility>
#include <vector>

#include "absl/synchronization/mutex.h"
#include "absl/synchronization/notification.h"
#include "base/random.h"
#include "gtest/gtest.h"
#include "tests/pserver/push_testing.h"

namespace oarlock {
namespace {

using Outcome = absl::StatusOr<PushOutcome>;

// The answers of many calls, in the order in which they came.
class Answers {
 public:
  struct Call {
    int times = 0;
    absl::Status status;
    uint32_t duplicate_groups = 0;
  };

  PushDone Expect(const std::string& name) {
    return [this, name](Outcome outcome) {
      absl::MutexLock lock(&mutex_);
      order_.push_back(name);
      Call& call = calls_[name];
      ++call.times;
      call.status = outcome.status();
      if (outcome.ok()) call.duplicate_groups = outcome->duplicate_groups;
    };
  }

  Call Get(const std::string& name) const {
    absl::MutexLock lock(&mutex_);
    const auto found = calls_.find(name);
    return found == calls_.end() ? Call() : found->second;
  }
  bool Has(const std::string& name) const { return Get(name).times > 0; }
  absl::StatusCode Code(const std::string& name) const {
    EXPECT_EQ(Get(name).times, 1) << name;
    return Get(name).status.code();
  }
  std::vector<std::string> order() const {
    absl::MutexLock lock(&mutex_);
    return order_;
  }
  size_t size() const { return order().size(); }

 private:
  mutable absl::Mutex mutex_;
  std::map<std::string, Call> calls_;
  std::vector<std::string> order_;
};

constexpr absl::StatusCode kOk = absl::StatusCode::kOk;

// A table of one float per row at SGD with learning rate -1: a row is the sum
// of what was applied to it.
class SyncAggregatorTest : public ::testing::Test {
 protected:
  void Join(uint32_t worker, uint64_t generation = 1) {
    aggregator_->SetRoundMember(WorkerIndex(worker), Generation(generation),
                                true);
  }
  void Leave(uint32_t worker, uint64_t generation = 1) {
    aggregator_->SetRoundMember(WorkerIndex(worker), Generation(generation),
                                false);
  }
  // One message that is a whole push: `value` for key 5.
  void Push(const std::string& name, uint32_t worker, uint64_t sequence,
            uint64_t round, float value, uint64_t generation = 1) {
    aggregator_->PushSparse(
        SparsePushOf(PushHeader(worker, generation, sequence, round),
                     {{kKey, {value}}}),
        answers_.Expect(name));
  }
  // Message `part` of `parts`.
  void PushPart(const std::string& name, uint32_t worker, uint64_t sequence,
                uint64_t round, uint32_t part, uint32_t parts,
                const SparseGradients& gradients, uint64_t generation = 1) {
    v1::RequestHeader header =
        PushHeader(worker, generation, sequence, round);
    header.set_part_index(part);
    header.set_part_count(parts);
    header.set_table_part_count(parts);
    aggregator_->PushSparse(SparsePushOf(header, gradients),
                            answers_.Expect(name));
  }
  float Row(Key key = kKey) {
    const SparseGradients rows = RowsOf(*table_);
    const auto found = rows.find(key);
    return found == rows.end() ? 0 : found->second[0];
  }
  void Reset(v1::GradientReduction reduction) {
    aggregator_.reset();
    table_ = MakeSparse(SparseConfig(1, -1, v1::SYNC, reduction));
    aggregator_ = std::make_unique<SyncAggregator>(table_.get());
  }

  static constexpr Key kKey{5};
  std::unique_ptr<SparseTable> table_ =
      MakeSparse(SparseConfig(1, -1, v1::SYNC, v1::SUM));
  Answers answers_;
  std::unique_ptr<SyncAggregator> aggregator_ =
      std::make_unique<SyncAggregator>(table_.get());
};

TEST_F(SyncAggregatorTest, RoundWaitsForEveryMember) {
  Join(0);
  Join(1);
  Push("b", 1, 1, 1, 2);
  EXPECT_FALSE(answers_.Has("b"));
  EXPECT_EQ(Row(), 0);
  EXPECT_EQ(aggregator_->HeldPushes(), 1u);
  EXPECT_EQ(aggregator_->CompleteRounds(), 0u);
  Push("a", 0, 1, 1, 1);
  EXPECT_EQ(answers_.Code("a"), kOk);
  EXPECT_EQ(answers_.Code("b"), kOk);
  EXPECT_EQ(answers_.order(), (std::vector<std::string>{"a", "b"}))
      << "answers come in the order of workers";
  EXPECT_EQ(Row(), 3);
  EXPECT_EQ(aggregator_->HeldPushes(), 0u);
  EXPECT_EQ(aggregator_->CompleteRounds(), 1u);
  EXPECT_EQ(aggregator_->Version(), 1u);
}

TEST_F(SyncAggregatorTest, MeanDividesByContributorsNotByThoseWithTheKey) {
  Reset(v1::MEAN);
  for (uint32_t worker : {0, 1, 2}) Join(worker);
  Push("a", 0, 1, 1, 4);
  Push("b", 1, 1, 1, 5);
  PushPart("c", 2, 1, 1, 0, 1, {});
  EXPECT_EQ(answers_.size(), 3u);
  EXPECT_EQ(Row(), 3);
}

TEST_F(SyncAggregatorTest, EmptyPushesCompleteARound) {
  Join(0);
  PushPart("a", 0, 1, 1, 0, 1, {});
  EXPECT_EQ(answers_.Code("a"), kOk);
  EXPECT_EQ(aggregator_->CompleteRounds(), 1u);
}

TEST_F(SyncAggregatorTest, PushIsCompleteWhenAllItsMessagesAreThere) {
  Join(0);
  PushPart("second", 0, 1, 1, 7, 2, {{Key{2}, {2}}});
  EXPECT_FALSE(answers_.Has("second"));
  PushPart("first", 0, 1, 1, 3, 2, {{Key{1}, {1}}});
  EXPECT_EQ(answers_.order(), (std::vector<std::string>{"first", "second"}));
  EXPECT_EQ(Row(Key{1}), 1);
  EXPECT_EQ(Row(Key{2}), 2);
}

TEST_F(SyncAggregatorTest, RetryOfAHeldMessageIsAnsweredAndCountedOnce) {
  Join(0);
  Join(1);
  Push("a", 0, 1, 1, 1);
  Push("a again", 0, 1, 1, 1);
  EXPECT_EQ(answers_.size(), 0u);
  EXPECT_EQ(aggregator_->HeldPushes(), 1u);
  Push("b", 1, 1, 1, 10);
  EXPECT_EQ(answers_.Code("a"), kOk);
  EXPECT_EQ(answers_.Code("a again"), kOk);
  EXPECT_EQ(Row(), 11);
}

TEST_F(SyncAggregatorTest, OldestOfTooManyRetriesIsSentAway) {
  Join(0);
  Join(1);
  for (size_t i = 0; i <= SyncAggregator::kMaxCallersPerMessage; ++i) {
    Push("call " + std::to_string(i), 0, 1, 1, 1);
  }
  EXPECT_EQ(answers_.Code("call 0"), absl::StatusCode::kUnavailable);
  EXPECT_EQ(answers_.size(), 1u);
  Push("b", 1, 1, 1, 1);
  EXPECT_EQ(answers_.Code("call 1"), kOk);
  EXPECT_EQ(Row(), 2);
}

TEST_F(SyncAggregatorTest, LateRetryIsAnsweredAsDuplicate) {
  Join(0);
  Push("a", 0, 1, 1, 1);
  Push("a again", 0, 1, 1, 1);
  EXPECT_EQ(answers_.Code("a again"), kOk);
  EXPECT_EQ(answers_.Get("a again").duplicate_groups, 1u);
  EXPECT_EQ(Row(), 1);
  EXPECT_EQ(aggregator_->CompleteRounds(), 1u);
}

TEST_F(SyncAggregatorTest, LatePushThatWasNotAppliedIsRefused) {
  Join(0);
  Push("a", 0, 1, 1, 1);
  Join(1);
  Push("b", 1, 1, 1, 1);
  EXPECT_EQ(answers_.Code("b"), absl::StatusCode::kFailedPrecondition);
  EXPECT_EQ(Row(), 1);
}

TEST_F(SyncAggregatorTest, MemberMayBeOneRoundAheadAndNotTwo) {
  Join(0);
  Join(1);
  Push("a1", 0, 1, 1, 1);
  Push("a2", 0, 2, 2, 10);
  Push("a3", 0, 3, 3, 100);
  EXPECT_EQ(answers_.Code("a3"), absl::StatusCode::kFailedPrecondition);
  EXPECT_EQ(answers_.size(), 1u);
  Push("b1", 1, 1, 1, 1);
  EXPECT_EQ(Row(), 2);
  EXPECT_FALSE(answers_.Has("a2"));
  Push("b2", 1, 2, 2, 10);
  EXPECT_EQ(Row(), 22);
  EXPECT_EQ(answers_.Code("a2"), kOk);
}

TEST_F(SyncAggregatorTest, PushOfANonMemberIsRefused) {
  Push("a", 0, 1, 1, 1);
  EXPECT_EQ(answers_.Code("a"), absl::StatusCode::kFailedPrecondition);
  Join(0, 2);
  Push("old generation", 0, 1, 1, 1, /*generation=*/1);
  EXPECT_EQ(answers_.Code("old generation"),
            absl::StatusCode::kFailedPrecondition);
  EXPECT_EQ(aggregator_->HeldPushes(), 0u);
}

TEST_F(SyncAggregatorTest, PushWithoutARoundIsInvalid) {
  Join(0);
  Push("a", 0, 1, 0, 1);
  EXPECT_EQ(answers_.Code("a"), absl::StatusCode::kInvalidArgument);
}

TEST_F(SyncAggregatorTest, ARoundTakesOnePushOfAWorker) {
  Join(0);
  Join(1);
  Push("a", 0, 1, 1, 1);
  Push("another", 0, 2, 1, 1);
  EXPECT_EQ(answers_.Code("another"), absl::StatusCode::kInvalidArgument);
  Push("same in the next", 0, 1, 2, 1);
  EXPECT_EQ(answers_.Code("same in the next"),
            absl::StatusCode::kInvalidArgument);
  Push("b", 1, 1, 1, 1);
  EXPECT_EQ(Row(), 2);
  Push("applied already", 0, 1, 2, 1);
  EXPECT_EQ(answers_.Code("applied already"),
            absl::StatusCode::kInvalidArgument);
  EXPECT_EQ(Row(), 2);
}

TEST_F(SyncAggregatorTest, PartsThatContradictEachOtherAreInvalid) {
  Join(0);
  PushPart("none", 0, 1, 1, 0, 0, {});
  EXPECT_EQ(answers_.Code("none"), absl::StatusCode::kInvalidArgument);
  PushPart("too many", 0, 1, 1, 0, SyncAggregator::kMaxTableParts + 1, {});
  EXPECT_EQ(answers_.Code("too many"), absl::StatusCode::kInvalidArgument);
  PushPart("first", 0, 1, 1, 0, 2, {});
  PushPart("other count", 0, 1, 1, 1, 3, {});
  EXPECT_EQ(answers_.Code("other count"), absl::StatusCode::kInvalidArgument);
  PushPart("second", 0, 1, 1, 1, 2, {});
  EXPECT_EQ(answers_.Code("second"), kOk);
}

TEST_F(SyncAggregatorTest, PartOfALostWorkerIsDroppedAndTheRoundGoesOn) {
  Join(0);
  Join(1);
  PushPart("half", 1, 1, 1, 0, 2, {{kKey, {100}}});
  Push("a", 0, 1, 1, 1);
  EXPECT_EQ(answers_.size(), 0u);
  Leave(1);
  EXPECT_EQ(answers_.Code("half"), absl::StatusCode::kAborted);
  EXPECT_EQ(answers_.Code("a"), kOk);
  EXPECT_EQ(Row(), 1);
  EXPECT_EQ(aggregator_->HeldPushes(), 0u);
}

TEST_F(SyncAggregatorTest, CompletePushOfALostWorkerCounts) {
  Reset(v1::MEAN);
  Join(0);
  Join(1);
  Push("b", 1, 1, 1, 6);
  Push("b2", 1, 2, 2, 8);
  Leave(1);
  EXPECT_EQ(answers_.size(), 0u);
  Push("a", 0, 1, 1, 2);
  EXPECT_EQ(Row(), 4);
  Push("a2", 0, 2, 2, 4);
  EXPECT_EQ(Row(), 10);
  EXPECT_EQ(answers_.Code("b2"), kOk);
}

TEST_F(SyncAggregatorTest, WhatTheLastMemberLeavesBehindIsApplied) {
  Join(0);
  Join(1);
  Push("a", 0, 1, 1, 1);
  Leave(0);
  EXPECT_EQ(answers_.size(), 0u);
  Leave(1);
  EXPECT_EQ(answers_.Code("a"), kOk);
  EXPECT_EQ(Row(), 1);
  EXPECT_EQ(aggregator_->CompleteRounds(), 1u);
}

TEST_F(SyncAggregatorTest, NewGenerationTakesThePlaceOfTheOld) {
  Join(0);
  Join(1);
  PushPart("half", 1, 9, 1, 0, 2, {{kKey, {100}}});
  Join(1, 2);
  EXPECT_EQ(answers_.Code("half"), absl::StatusCode::kAborted);
  Leave(1, 1);  // The news of the old one's death comes late.
  Push("a", 0, 1, 1, 1);
  EXPECT_EQ(answers_.size(), 1u) << "the new generation is waited for";
  Push("b", 1, 1, 1, 10, /*generation=*/2);
  EXPECT_EQ(Row(), 11);
}

TEST_F(SyncAggregatorTest, JoinerIsWaitedForFromTheRoundItBeginsWith) {
  Join(0);
  Push("a1", 0, 1, 1, 1);
  Join(1);
  // Another server told it that round 2 is complete there.
  Push("b3", 1, 1, 3, 100);
  EXPECT_EQ(answers_.size(), 1u);
  Push("a2", 0, 2, 2, 10);
  EXPECT_EQ(answers_.Code("a2"), kOk);
  EXPECT_EQ(Row(), 11);
  EXPECT_FALSE(answers_.Has("b3"));
  Push("a3", 0, 3, 3, 100);
  EXPECT_EQ(Row(), 211);
}

TEST_F(SyncAggregatorTest, ShutdownAnswersWhatIsHeldAndHoldsNothingMore) {
  Join(0);
  Join(1);
  Push("a", 0, 1, 1, 1);
  Push("a2", 0, 2, 2, 1);
  aggregator_->Shutdown();
  aggregator_->Shutdown();
  EXPECT_EQ(answers_.Code("a"), absl::StatusCode::kUnavailable);
  EXPECT_EQ(answers_.Code("a2"), absl::StatusCode::kUnavailable);
  Push("b", 1, 1, 1, 1);
  EXPECT_EQ(answers_.Code("b"), absl::StatusCode::kUnavailable);
  EXPECT_EQ(aggregator_->HeldPushes(), 0u);
  EXPECT_EQ(Row(), 0);
}

// A table whose pushes wait until they are let go, and may fail.
class StubbornTable : public SparseTable {
 public:
  explicit StubbornTable(SparseTable* table) : table_(table) {}
  void Pull(absl::Span<const KeyGroup> groups, const Key* keys, float* values,
            uint64_t* group_versions) const override {
    table_->Pull(groups, keys, values, group_versions);
  }
  void PullWithStatistics(absl::Span<const KeyGroup> groups, const Key* keys,
                          float* values, float* shows, float* clicks,
                          uint64_t* group_versions) const override {
    table_->PullWithStatistics(groups, keys, values, shows, clicks,
                               group_versions);
  }
  const EvictionLimits& eviction() const override { return table_->eviction(); }
  absl::StatusOr<EvictionLimits> LimitsOf(
      const v1::EvictionConfig& config) const override {
    return table_->LimitsOf(config);
  }
  EvictionResult Evict(PartitionIndex partition, const EvictionLimits& limits,
                       uint32_t logical_time) override {
    return table_->Evict(partition, limits, logical_time);
  }
  uint32_t num_partitions() const override { return table_->num_partitions(); }
  absl::StatusOr<SparsePushResult> Push(const SparsePush& push) override {
    if (!entered.HasBeenNotified()) entered.Notify();
    go.WaitForNotification();
    if (!result.ok()) return result;
    return table_->Push(push);
  }
  bool HasApplied(PartitionIndex partition,
                  const PushStamp& stamp) const override {
    return table_->HasApplied(partition, stamp);
  }
  void ForEachRow(const std::function<void(PartitionIndex, const RowView&)>&
                      visit) const override {
    table_->ForEachRow(visit);
  }
  SparseTableStats Stats() const override { return table_->Stats(); }
  std::vector<SparsePartitionStats> PartitionStats() const override {
    return table_->PartitionStats();
  }
  const v1::TableConfig& config() const override { return table_->config(); }

  absl::Notification entered;
  absl::Notification go;
  absl::Status result;

 private:
  SparseTable* const table_;
};

TEST_F(SyncAggregatorTest, TableFailureIsToldToAllContributors) {
  StubbornTable table(table_.get());
  table.result = absl::ResourceExhaustedError("full");
  table.go.Notify();
  aggregator_ = std::make_unique<SyncAggregator>(&table);
  Join(0);
  Join(1);
  Push("a", 0, 1, 1, 1);
  Push("b", 1, 1, 1, 1);
  EXPECT_EQ(answers_.Code("a"), absl::StatusCode::kResourceExhausted);
  EXPECT_EQ(answers_.Code("b"), absl::StatusCode::kResourceExhausted);
}

TEST_F(SyncAggregatorTest, RetryWhileItsRoundIsAppliedWaitsForIt) {
  StubbornTable table(table_.get());
  aggregator_ = std::make_unique<SyncAggregator>(&table);
  Join(0);
  std::thread applier([&] { Push("a", 0, 1, 1, 1); });
  table.entered.WaitForNotification();
  Push("a again", 0, 1, 1, 1);
  EXPECT_EQ(answers_.size(), 0u) << "neither may be told before it is applied";
  EXPECT_EQ(aggregator_->CompleteRounds(), 1u)
      << "who joins now begins with round 2";
  EXPECT_EQ(aggregator_->Version(), 0u);
  Join(1);
  Push("b", 1, 1, 2, 10);
  Push("a2", 0, 2, 2, 20);
  table.go.Notify();
  applier.join();
  EXPECT_EQ(answers_.size(), 4u);
  EXPECT_EQ(answers_.Code("a again"), kOk);
  EXPECT_EQ(Row(), 31);
}

// Each worker's pushes of all rounds, cut into messages, as it would send
// them.
struct Message {
  uint32_t worker;
  uint64_t generation;
  uint64_t sequence;
  uint64_t round;
  uint32_t part;
  uint32_t parts;
  SparseGradients gradients;

  std::string Prefix() const {
    return std::to_string(worker) + "." + std::to_string(generation) + "." +
           std::to_string(sequence) + "." + std::to_string(part) + "#";
  }
  std::string Name(int call) const { return Prefix() + std::to_string(call); }
  PushSparseRequestView View() const {
    v1::RequestHeader header =
        PushHeader(worker, generation, sequence, round);
    header.set_part_index(part);
    header.set_part_count(parts);
    header.set_table_part_count(parts);
    return SparsePushOf(header, gradients);
  }
};

constexpr uint32_t kDim = 3;
constexpr float kLearningRate = 0.37f;

std::vector<Message> MessagesOf(uint64_t data_seed, uint32_t worker,
                                uint64_t generation, uint64_t sequence,
                                uint64_t round, uint32_t num_parts,
                                SparseGradients* whole) {
  *whole = RandomGradients(
      DeriveSeed(data_seed, (worker * 1000 + generation) * 1000 + round), 40,
      60, kDim);
  const auto parts = CutByPartition(*whole, num_parts);
  std::vector<Message> messages;
  for (uint32_t i = 0; i < num_parts; ++i) {
    messages.push_back(
        {worker, generation, sequence, round, i, num_parts, parts[i]});
  }
  return messages;
}

// Delivers the messages of a job in a random order with retries, lets workers
// die and come back, and keeps book of what must come of it.
class RandomJob {
 public:
  RandomJob(uint64_t seed, uint64_t data_seed, uint32_t num_workers,
            uint64_t num_rounds, bool with_deaths, bool with_ahead)
      : random_(seed),
        data_seed_(data_seed),
        num_rounds_(num_rounds),
        with_deaths_(with_deaths),
        with_ahead_(with_ahead),
        table_(MakeSparse(
            SparseConfig(kDim, kLearningRate, v1::SYNC, v1::MEAN))),
        aggregator_(table_.get()),
        workers_(num_workers) {}

  void Run() {
    for (uint32_t w = 0; w < workers_.size(); ++w) Join(w, 1);
    int steps_left = 200000;  // A job that hangs must end too.
    while (!AllDone() && --steps_left > 0) Step();
    ASSERT_GT(steps_left, 0) << "the rounds stand still";
    aggregator_.Shutdown();
  }

  // Compares answers and rows with the book.
  void Check() {
    SgdModel model(kLearningRate);
    for (const auto& [round, contributions] : counted_) {
      std::vector<const SparseGradients*> gradients;
      for (const auto& [name, gradient] : contributions) {
        gradients.push_back(&gradient);
      }
      model.ApplyRound(gradients, gradients.size());
    }
    EXPECT_EQ(RowsOf(*table_), model.rows());
    for (const auto& [name, code] : expected_) {
      EXPECT_EQ(answers_.Get(name).times, 1) << name;
      EXPECT_EQ(answers_.Get(name).status.code(), code)
          << name << ": " << answers_.Get(name).status;
    }
    EXPECT_EQ(aggregator_.CompleteRounds(), num_rounds_);
    EXPECT_EQ(aggregator_.HeldPushes(), 0u);
  }

  SparseGradients Rows() const { return RowsOf(*table_); }

 private:
  struct Worker {
    uint64_t generation = 0;
    uint64_t next_round = 1;
    uint64_t first_round = 1;
    uint64_t sequence = 0;
    bool left = false;
    // Of the round `next_round - 1`, not yet delivered.
    std::vector<Message> to_send;
    SparseGradients whole;
    // Delivered at least once.
    std::deque<Message> sent;
  };

  void Join(uint32_t w, uint64_t generation) {
    Worker worker;
    worker.generation = generation;
    aggregator_.SetRoundMember(WorkerIndex(w), Generation(generation), true);
    worker.first_round = worker.next_round = aggregator_.CompleteRounds() + 1;
    workers_[w] = worker;
  }

  bool AllDone() const {
    return std::all_of(workers_.begin(), workers_.end(),
                       [](const Worker& worker) { return worker.left; });
  }

  void Step() {
    const uint32_t w = random_.Below(workers_.size());
    Worker& worker = workers_[w];
    if (worker.left) return;
    const uint64_t complete = aggregator_.CompleteRounds();
    if (with_deaths_ && complete + 1 < num_rounds_ && random_.Below(60) == 0) {
      Die(w);
      return;
    }
    if (!worker.sent.empty() && random_.Below(4) == 0) {
      const Message& message = worker.sent[random_.Below(worker.sent.size())];
      if (NumOpenCalls(message) < SyncAggregator::kMaxCallersPerMessage) {
        Deliver(message);
      }
      return;
    }
    if (!worker.to_send.empty()) {
      const size_t i = random_.Below(worker.to_send.size());
      const Message message = worker.to_send[i];
      worker.to_send.erase(worker.to_send.begin() + i);
      if (worker.to_send.empty()) {
        counted_[message.round][{w, worker.generation}] = worker.whole;
      }
      worker.sent.push_back(message);
      if (worker.sent.size() > 12) worker.sent.pop_front();
      Deliver(message);
      return;
    }
    if (worker.next_round > num_rounds_) {
      if (complete < num_rounds_) return;
      worker.left = true;
      aggregator_.SetRoundMember(WorkerIndex(w), Generation(worker.generation),
                                 false);
      return;
    }
    // A joiner awaits the answers of its first round.
    const bool may_be_ahead =
        with_ahead_ && worker.next_round > worker.first_round + 1;
    if (worker.next_round > complete + (may_be_ahead ? 2 : 1)) return;
    worker.to_send =
        MessagesOf(data_seed_, w, worker.generation, ++worker.sequence,
                   worker.next_round, 1 + random_.Below(3), &worker.whole);
    ++worker.next_round;
  }

  size_t NumOpenCalls(const Message& message) {
    size_t n = 0;
    for (const std::string& name :
         calls_[{message.worker, message.generation, message.round}]) {
      n += name.starts_with(message.Prefix()) && !answers_.Has(name);
    }
    return n;
  }

  void Deliver(const Message& message) {
    const std::string name = message.Name(num_calls_++);
    expected_[name] = kOk;
    calls_[{message.worker, message.generation, message.round}].push_back(name);
    aggregator_.PushSparse(message.View(), answers_.Expect(name));
  }

  void Die(uint32_t w) {
    Worker& worker = workers_[w];
    if (!worker.to_send.empty()) {
      // Whoever waits for a part of the incomplete push is told so.
      for (const std::string& name :
           calls_[{w, worker.generation, worker.next_round - 1}]) {
        expected_[name] = absl::StatusCode::kAborted;
      }
    }
    const uint64_t generation = worker.generation;
    if (random_.Below(2) == 0) {
      aggregator_.SetRoundMember(WorkerIndex(w), Generation(generation),
                                 false);
    }
    Join(w, generation + 1);
  }

  RandomSequence random_;
  const uint64_t data_seed_;
  const uint64_t num_rounds_;
  const bool with_deaths_;
  const bool with_ahead_;
  std::unique_ptr<SparseTable> table_;
  Answers answers_;
  SyncAggregator aggregator_;
  std::vector<Worker> workers_;
  int num_calls_ = 0;
  std::map<std::string, absl::StatusCode> expected_;
  // By worker, generation and round.
  std::map<std::tuple<uint32_t, uint64_t, uint64_t>, std::vector<std::string>>
      calls_;
  // By round, then by (worker, generation): the pushes that were delivered
  // completely.
  std::map<uint64_t, std::map<std::pair<uint32_t, uint64_t>, SparseGradients>>
      counted_;
};

TEST(SyncAggregatorModelTest, AnyOrderOfArrivalGivesTheModelsRows) {
  SparseGradients first;
  for (uint64_t seed = 1; seed <= 40; ++seed) {
    SCOPED_TRACE("seed " + std::to_string(seed));
    RandomJob job(seed, /*data_seed=*/11, 4, 12, /*with_deaths=*/false,
                  /*with_ahead=*/seed % 2 == 0);
    job.Run();
    job.Check();
    // The same data in another order: bitwise the same rows.
    if (seed == 1) first = job.Rows();
    EXPECT_EQ(job.Rows(), first);
  }
}

TEST(SyncAggregatorModelTest, DeathsAndReturnsGiveTheModelsRows) {
  for (uint64_t seed = 1; seed <= 60; ++seed) {
    SCOPED_TRACE("seed " + std::to_string(seed));
    RandomJob job(seed, /*data_seed=*/seed, 1 + seed % 4, 15,
                  /*with_deaths=*/true, /*with_ahead=*/seed % 2 == 0);
    job.Run();
    job.Check();
  }
}

// Threads as workers, each awaiting its answers, the last rounds with fewer of
// them; messages of a push are sent by two threads at once.
SparseGradients RunThreads(uint32_t num_workers, uint32_t num_parts,
                           SgdModel* model) {
  const auto table =
      MakeSparse(SparseConfig(kDim, kLearningRate, v1::SYNC, v1::SUM));
  SyncAggregator aggregator(table.get());
  const auto rounds_of = [](uint32_t w) { return 20u + 5u * w; };
  for (uint32_t w = 0; w < num_workers; ++w) {
    aggregator.SetRoundMember(WorkerIndex(w), Generation(1), true);
  }
  std::vector<std::thread> threads;
  for (uint32_t w = 0; w < num_workers; ++w) {
    threads.emplace_back([&, w] {
      for (uint64_t round = 1; round <= rounds_of(w); ++round) {
        SparseGradients whole;
        const auto messages =
            MessagesOf(3, w, 1, round, round, num_parts, &whole);
        absl::Mutex mutex;
        size_t num_answers = 0;
        const auto send = [&](size_t begin) {
          for (size_t i = begin; i < messages.size(); i += 2) {
            aggregator.PushSparse(messages[i].View(), [&](Outcome outcome) {
              EXPECT_TRUE(outcome.ok()) << outcome.status();
              absl::MutexLock lock(&mutex);
              ++num_answers;
            });
          }
        };
        std::thread helper(send, 1);
        send(0);
        helper.join();
        const auto all = [&] { return num_answers == messages.size(); };
        absl::MutexLock lock(&mutex);
        ASSERT_TRUE(mutex.AwaitWithTimeout(absl::Condition(&all),
                                           absl::Seconds(60)));
      }
      aggregator.SetRoundMember(WorkerIndex(w), Generation(1), false);
    });
  }
  for (std::thread& thread : threads) thread.join();
  for (uint64_t round = 1; round <= rounds_of(num_workers - 1); ++round) {
    std::vector<SparseGradients> wholes(num_workers);
    std::vector<const SparseGradients*> gradients;
    for (uint32_t w = 0; w < num_workers; ++w) {
      if (round > rounds_of(w)) continue;
      MessagesOf(3, w, 1, round, round, num_parts, &wholes[w]);
      gradients.push_back(&wholes[w]);
    }
    model->ApplyRound(gradients, 1);
  }
  EXPECT_EQ(aggregator.HeldPushes(), 0u);
  return RowsOf(*table);
}

TEST(SyncAggregatorThreadsTest, WorkersInThreadsGiveTheModelsRows) {
  SgdModel model(kLearningRate);
  const SparseGradients rows = RunThreads(4, 3, &model);
  EXPECT_EQ(rows, model.rows());
  SgdModel again(kLearningRate);
  EXPECT_EQ(RunThreads(4, 1, &again), rows) << "however it is cut in messages";
}

TEST(SyncAggregatorThreadsTest, ShutdownAmongPushesAnswersEveryCall) {
  for (int trial = 0; trial < 20; ++trial) {
    const auto table =
        MakeSparse(SparseConfig(kDim, kLearningRate, v1::SYNC, v1::SUM));
    SyncAggregator aggregator(table.get());
    Answers answers;
    for (uint32_t w = 0; w < 2; ++w) {
      aggregator.SetRoundMember(WorkerIndex(w), Generation(1), true);
    }
    std::vector<std::thread> threads;
    for (uint32_t w = 0; w < 2; ++w) {
      threads.emplace_back([&, w] {
        for (uint64_t round = 1; round <= 50; ++round) {
          aggregator.PushSparse(
              SparsePushOf(PushHeader(w, 1, round, round),
                           RandomGradients(round, 5, 20, kDim)),
              answers.Expect(std::to_string(w) + "." + std::to_string(round)));
        }
      });
    }
    aggregator.Shutdown();
    for (std::thread& thread : threads) thread.join();
    EXPECT_EQ(answers.size(), 100u);
    EXPECT_EQ(aggregator.HeldPushes(), 0u);
  }
}

// Dense blocks: the same promises.
std::vector<float> RunDense(uint32_t num_servers, uint64_t order_seed,
                            v1::GradientReduction reduction) {
  constexpr uint32_t kBlocks = 9;
  const v1::TableConfig config =
      DenseConfig(8 * kBlocks - 3, 8, kLearningRate, v1::SYNC, reduction);
  std::vector<std::unique_ptr<DenseTable>> tables;
  std::vector<std::unique_ptr<SyncAggregator>> aggregators;
  for (uint32_t s = 0; s < num_servers; ++s) {
    tables.push_back(MakeDense(config, num_servers, s));
    aggregators.push_back(std::make_unique<SyncAggregator>(tables[s].get()));
    for (uint32_t w = 0; w < 3; ++w) {
      aggregators[s]->SetRoundMember(WorkerIndex(w), Generation(1), true);
    }
  }
  RandomSequence order(order_seed);
  size_t num_answers = 0;
  for (uint64_t round = 1; round <= 10; ++round) {
    std::vector<std::pair<uint32_t, uint32_t>> calls;  // worker, server
    for (uint32_t w = 0; w < 3; ++w) {
      for (uint32_t s = 0; s < num_servers; ++s) calls.push_back({w, s});
    }
    std::shuffle(calls.begin(), calls.end(), order);
    for (const auto& [w, s] : calls) {
      DenseGradients gradients;
      for (uint32_t b = 0; b < kBlocks; ++b) {
        const BlockIndex block(b);
        // Worker 1 leaves some blocks out.
        if (!tables[s]->Owns(block) || (w == 1 && b % 3 == 0)) continue;
        for (size_t i = 0; i < tables[s]->BlockSize(block); ++i) {
          gradients[block].push_back(
              RandomUniform(DeriveSeed(round, w), b * 100 + i) - 0.5f);
        }
      }
      aggregators[s]->PushDense(
          DensePushOf(PushHeader(w, 1, round, round), gradients),
          [&](Outcome outcome) { num_answers += outcome.ok(); });
    }
  }
  EXPECT_EQ(num_answers, 10u * 3 * num_servers);
  std::vector<float> vector;
  for (uint32_t b = 0; b < kBlocks; ++b) {
    for (const auto& table : tables) {
      if (!table->Owns(BlockIndex(b))) continue;
      const auto values = BlockOf(*table, BlockIndex(b));
      vector.insert(vector.end(), values.begin(), values.end());
    }
  }
  return vector;
}

TEST(SyncAggregatorDenseTest, BlocksDependNeitherOnOrderNorOnServers) {
  const std::vector<float> one = RunDense(1, 1, v1::MEAN);
  for (uint64_t seed = 2; seed < 10; ++seed) {
    EXPECT_EQ(RunDense(1, seed, v1::MEAN), one) << "seed " << seed;
    EXPECT_EQ(RunDense(3, seed, v1::MEAN), one) << "seed " << seed;
  }
}

TEST(SyncAggregatorDenseTest, BlocksFollowANaiveLoop) {
  for (const v1::GradientReduction reduction : {v1::SUM, v1::MEAN}) {
    std::vector<float> expected;
    for (uint32_t b = 0; b < 9; ++b) {
      for (uint32_t i = 0; i < (b == 8 ? 5u : 8u); ++i) {
        float value = 0;
        for (uint64_t round = 1; round <= 10; ++round) {
          float sum = 0;
          for (uint32_t w = 0; w < 3; ++w) {
            if (w == 1 && b % 3 == 0) continue;
            sum += RandomUniform(DeriveSeed(round, w), b * 100 + i) - 0.5f;
          }
          if (reduction == v1::MEAN) sum /= 3;
          value -= kLearningRate * sum;
        }
        expected.push_back(value);
      }
    }
    EXPECT_EQ(RunDense(2, 1, reduction), expected);
  }
}

TEST(SyncAggregatorDenseTest, LateRetryOfBlocksIsADuplicate) {
  const auto table = MakeDense(DenseConfig(4, 2, -1, v1::SYNC, v1::SUM));
  SyncAggregator aggregator(table.get());
  aggregator.SetRoundMember(WorkerIndex(0), Generation(1), true);
  for (int i = 0; i < 2; ++i) {
    bool answered = false;
    aggregator.PushDense(
        DensePushOf(PushHeader(0, 1, 1, 1), {{BlockIndex(1), {2, 3}}}),
        [&](Outcome outcome) {
          answered = outcome.ok() &&
                     outcome->duplicate_groups == (i == 0 ? 0u : 1u);
        });
    EXPECT_TRUE(answered);
  }
  EXPECT_EQ(BlockOf(*table, BlockIndex(1)), (std::vector<float>{2, 3}));
}

}  // namespace
}  // namespace oarlock
