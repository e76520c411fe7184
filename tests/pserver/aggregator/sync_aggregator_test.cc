#include "pserver/aggregator/sync_aggregator.h"

#include <gtest/gtest.h>

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/synchronization/notification.h"
#include "tests/pserver/service/push_responses.h"
#include "tests/pserver/service/push_testing.h"

namespace oarlock::pserver {
namespace {

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
        responses_.Expect(name));
  }
  // Message `index` of `num_messages`.
  void PushMessage(const std::string& name, uint32_t worker, uint64_t sequence,
                   uint64_t round, uint32_t index, uint32_t num_messages,
                   const SparseGradients& gradients, uint64_t generation = 1) {
    v1::RequestHeader header = PushHeader(worker, generation, sequence, round);
    header.set_message_index(index);
    header.set_message_count(num_messages);
    header.set_table_message_count(num_messages);
    aggregator_->PushSparse(SparsePushOf(header, gradients),
                            responses_.Expect(name));
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
  std::unique_ptr<sparse_table::SparseTable> table_ =
      MakeSparse(SparseConfig(1, -1, v1::SYNC, v1::SUM));
  PushResponses responses_;
  std::unique_ptr<SyncAggregator> aggregator_ =
      std::make_unique<SyncAggregator>(table_.get());
};

TEST_F(SyncAggregatorTest, RoundWaitsForEveryMember) {
  Join(0);
  Join(1);
  Push("b", 1, 1, 1, 2);
  EXPECT_FALSE(responses_.Has("b"));
  EXPECT_EQ(Row(), 0);
  EXPECT_EQ(aggregator_->HeldPushes(), 1u);
  EXPECT_EQ(aggregator_->CompleteRounds(), 0u);
  Push("a", 0, 1, 1, 1);
  EXPECT_EQ(responses_.Code("a"), kOk);
  EXPECT_EQ(responses_.Code("b"), kOk);
  EXPECT_EQ(responses_.order(), (std::vector<std::string>{"a", "b"}))
      << "responses come in the order of workers";
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
  PushMessage("c", 2, 1, 1, 0, 1, {});
  EXPECT_EQ(responses_.size(), 3u);
  EXPECT_EQ(Row(), 3);
}

TEST_F(SyncAggregatorTest, EmptyPushesCompleteARound) {
  Join(0);
  PushMessage("a", 0, 1, 1, 0, 1, {});
  EXPECT_EQ(responses_.Code("a"), kOk);
  EXPECT_EQ(aggregator_->CompleteRounds(), 1u);
}

TEST_F(SyncAggregatorTest, PushIsCompleteWhenAllItsMessagesAreThere) {
  Join(0);
  PushMessage("second", 0, 1, 1, 7, 2, {{Key{2}, {2}}});
  EXPECT_FALSE(responses_.Has("second"));
  PushMessage("first", 0, 1, 1, 3, 2, {{Key{1}, {1}}});
  EXPECT_EQ(responses_.order(), (std::vector<std::string>{"first", "second"}));
  EXPECT_EQ(Row(Key{1}), 1);
  EXPECT_EQ(Row(Key{2}), 2);
}

TEST_F(SyncAggregatorTest, RetryOfAHeldMessageIsAnsweredAndCountedOnce) {
  Join(0);
  Join(1);
  Push("a", 0, 1, 1, 1);
  Push("a again", 0, 1, 1, 1);
  EXPECT_EQ(responses_.size(), 0u);
  EXPECT_EQ(aggregator_->HeldPushes(), 1u);
  Push("b", 1, 1, 1, 10);
  EXPECT_EQ(responses_.Code("a"), kOk);
  EXPECT_EQ(responses_.Code("a again"), kOk);
  EXPECT_EQ(Row(), 11);
}

TEST_F(SyncAggregatorTest, OldestOfTooManyRetriesIsSentAway) {
  Join(0);
  Join(1);
  for (size_t i = 0; i <= SyncAggregator::kMaxCallersPerMessage; ++i) {
    Push("call " + std::to_string(i), 0, 1, 1, 1);
  }
  EXPECT_EQ(responses_.Code("call 0"), absl::StatusCode::kUnavailable);
  EXPECT_EQ(responses_.size(), 1u);
  Push("b", 1, 1, 1, 1);
  EXPECT_EQ(responses_.Code("call 1"), kOk);
  EXPECT_EQ(Row(), 2);
}

TEST_F(SyncAggregatorTest, LateRetryIsAnsweredAsDuplicate) {
  Join(0);
  Push("a", 0, 1, 1, 1);
  Push("a again", 0, 1, 1, 1);
  EXPECT_EQ(responses_.Code("a again"), kOk);
  EXPECT_EQ(responses_.Get("a again").duplicate_groups, 1u);
  EXPECT_EQ(Row(), 1);
  EXPECT_EQ(aggregator_->CompleteRounds(), 1u);
}

TEST_F(SyncAggregatorTest, LatePushThatWasNotAppliedIsRefused) {
  Join(0);
  Push("a", 0, 1, 1, 1);
  Join(1);
  Push("b", 1, 1, 1, 1);
  EXPECT_EQ(responses_.Code("b"), absl::StatusCode::kFailedPrecondition);
  EXPECT_EQ(Row(), 1);
}

TEST_F(SyncAggregatorTest, MemberMayBeOneRoundAheadAndNotTwo) {
  Join(0);
  Join(1);
  Push("a1", 0, 1, 1, 1);
  Push("a2", 0, 2, 2, 10);
  Push("a3", 0, 3, 3, 100);
  EXPECT_EQ(responses_.Code("a3"), absl::StatusCode::kFailedPrecondition);
  EXPECT_EQ(responses_.size(), 1u);
  Push("b1", 1, 1, 1, 1);
  EXPECT_EQ(Row(), 2);
  EXPECT_FALSE(responses_.Has("a2"));
  Push("b2", 1, 2, 2, 10);
  EXPECT_EQ(Row(), 22);
  EXPECT_EQ(responses_.Code("a2"), kOk);
}

TEST_F(SyncAggregatorTest, PushOfANonMemberIsRefused) {
  Push("a", 0, 1, 1, 1);
  EXPECT_EQ(responses_.Code("a"), absl::StatusCode::kFailedPrecondition);
  Join(0, 2);
  Push("old generation", 0, 1, 1, 1, /*generation=*/1);
  EXPECT_EQ(responses_.Code("old generation"),
            absl::StatusCode::kFailedPrecondition);
  EXPECT_EQ(aggregator_->HeldPushes(), 0u);
}

TEST_F(SyncAggregatorTest, PushWithoutARoundIsInvalid) {
  Join(0);
  Push("a", 0, 1, 0, 1);
  EXPECT_EQ(responses_.Code("a"), absl::StatusCode::kInvalidArgument);
}

TEST_F(SyncAggregatorTest, ARoundTakesOnePushOfAWorker) {
  Join(0);
  Join(1);
  Push("a", 0, 1, 1, 1);
  Push("another", 0, 2, 1, 1);
  EXPECT_EQ(responses_.Code("another"), absl::StatusCode::kInvalidArgument);
  Push("same in the next", 0, 1, 2, 1);
  EXPECT_EQ(responses_.Code("same in the next"),
            absl::StatusCode::kInvalidArgument);
  Push("b", 1, 1, 1, 1);
  EXPECT_EQ(Row(), 2);
  Push("applied already", 0, 1, 2, 1);
  EXPECT_EQ(responses_.Code("applied already"),
            absl::StatusCode::kInvalidArgument);
  EXPECT_EQ(Row(), 2);
}

TEST_F(SyncAggregatorTest, MessagesThatContradictEachOtherAreInvalid) {
  Join(0);
  PushMessage("none", 0, 1, 1, 0, 0, {});
  EXPECT_EQ(responses_.Code("none"), absl::StatusCode::kInvalidArgument);
  PushMessage("too many", 0, 1, 1, 0, SyncAggregator::kMaxTableMessages + 1,
              {});
  EXPECT_EQ(responses_.Code("too many"), absl::StatusCode::kInvalidArgument);
  PushMessage("first", 0, 1, 1, 0, 2, {});
  PushMessage("other count", 0, 1, 1, 1, 3, {});
  EXPECT_EQ(responses_.Code("other count"), absl::StatusCode::kInvalidArgument);
  PushMessage("second", 0, 1, 1, 1, 2, {});
  EXPECT_EQ(responses_.Code("second"), kOk);
}

TEST_F(SyncAggregatorTest, AMessageOfALostWorkerIsDroppedAndTheRoundGoesOn) {
  Join(0);
  Join(1);
  PushMessage("half", 1, 1, 1, 0, 2, {{kKey, {100}}});
  Push("a", 0, 1, 1, 1);
  EXPECT_EQ(responses_.size(), 0u);
  Leave(1);
  EXPECT_EQ(responses_.Code("half"), absl::StatusCode::kAborted);
  EXPECT_EQ(responses_.Code("a"), kOk);
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
  EXPECT_EQ(responses_.size(), 0u);
  Push("a", 0, 1, 1, 2);
  EXPECT_EQ(Row(), 4);
  Push("a2", 0, 2, 2, 4);
  EXPECT_EQ(Row(), 10);
  EXPECT_EQ(responses_.Code("b2"), kOk);
}

TEST_F(SyncAggregatorTest, WhatTheLastMemberLeavesBehindIsApplied) {
  Join(0);
  Join(1);
  Push("a", 0, 1, 1, 1);
  Leave(0);
  EXPECT_EQ(responses_.size(), 0u);
  Leave(1);
  EXPECT_EQ(responses_.Code("a"), kOk);
  EXPECT_EQ(Row(), 1);
  EXPECT_EQ(aggregator_->CompleteRounds(), 1u);
}

TEST_F(SyncAggregatorTest, NewGenerationTakesThePlaceOfTheOld) {
  Join(0);
  Join(1);
  PushMessage("half", 1, 9, 1, 0, 2, {{kKey, {100}}});
  Join(1, 2);
  EXPECT_EQ(responses_.Code("half"), absl::StatusCode::kAborted);
  Leave(1, 1);  // The news of the old one's death comes late.
  Push("a", 0, 1, 1, 1);
  EXPECT_EQ(responses_.size(), 1u) << "the new generation is waited for";
  Push("b", 1, 1, 1, 10, /*generation=*/2);
  EXPECT_EQ(Row(), 11);
}

TEST_F(SyncAggregatorTest, JoinerIsWaitedForFromTheRoundItBeginsWith) {
  Join(0);
  Push("a1", 0, 1, 1, 1);
  Join(1);
  // Another server told it that round 2 is complete there.
  Push("b3", 1, 1, 3, 100);
  EXPECT_EQ(responses_.size(), 1u);
  Push("a2", 0, 2, 2, 10);
  EXPECT_EQ(responses_.Code("a2"), kOk);
  EXPECT_EQ(Row(), 11);
  EXPECT_FALSE(responses_.Has("b3"));
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
  EXPECT_EQ(responses_.Code("a"), absl::StatusCode::kUnavailable);
  EXPECT_EQ(responses_.Code("a2"), absl::StatusCode::kUnavailable);
  Push("b", 1, 1, 1, 1);
  EXPECT_EQ(responses_.Code("b"), absl::StatusCode::kUnavailable);
  EXPECT_EQ(aggregator_->HeldPushes(), 0u);
  EXPECT_EQ(Row(), 0);
}

// A table whose pushes wait until they are let go, and may fail.
class StubbornTable : public sparse_table::SparseTable {
 public:
  explicit StubbornTable(sparse_table::SparseTable* table) : table_(table) {}
  absl::Status Pull(absl::Span<const KeyGroup> groups, const Key* keys,
                    float* values, uint64_t* group_versions) const override {
    return table_->Pull(groups, keys, values, group_versions);
  }
  absl::Status PullWithStatistics(absl::Span<const KeyGroup> groups,
                                  const Key* keys, float* values, float* shows,
                                  float* clicks,
                                  uint64_t* group_versions) const override {
    return table_->PullWithStatistics(groups, keys, values, shows, clicks,
                                      group_versions);
  }
  const sparse_table::EvictionLimits& eviction() const override {
    return table_->eviction();
  }
  absl::StatusOr<sparse_table::EvictionLimits> LimitsOf(
      const v1::EvictionConfig& config) const override {
    return table_->LimitsOf(config);
  }
  absl::StatusOr<sparse_table::EvictionResult> Evict(
      PartitionIndex partition, const sparse_table::EvictionLimits& limits,
      uint32_t logical_time, sparse_table::DoStep do_step) override {
    return table_->Evict(partition, limits, logical_time, do_step);
  }
  absl::Status EvictKeys(PartitionIndex partition, absl::Span<const Key> keys,
                         uint32_t logical_time) override {
    return table_->EvictKeys(partition, keys, logical_time);
  }
  uint32_t num_partitions() const override { return table_->num_partitions(); }
  absl::StatusOr<sparse_table::SparsePushResult> Push(
      const sparse_table::SparsePush& push) override {
    if (!entered.HasBeenNotified()) entered.Notify();
    go.WaitForNotification();
    if (!result.ok()) return result;
    return table_->Push(push);
  }
  bool HasApplied(PartitionIndex partition,
                  const PushStamp& stamp) const override {
    return table_->HasApplied(partition, stamp);
  }
  void ForgetWorker(WorkerIndex worker, Generation last) override {
    table_->ForgetWorker(worker, last);
  }
  absl::Status ForEachRow(
      const std::function<void(PartitionIndex, const RowView&)>& visit)
      const override {
    return table_->ForEachRow(visit);
  }
  sparse_table::SparseTableStats Stats() const override {
    return table_->Stats();
  }
  std::vector<sparse_table::SparsePartitionStats> PartitionStats()
      const override {
    return table_->PartitionStats();
  }
  const v1::TableConfig& config() const override { return table_->config(); }
  absl::Status Reconfigure(const v1::TableConfig& config) override {
    return table_->Reconfigure(config);
  }
  sparse_table::TableCuts& cuts() override { return table_->cuts(); }
  sparse_table::TableRestore& restore() override { return table_->restore(); }

  absl::Notification entered;
  absl::Notification go;
  absl::Status result;

 private:
  sparse_table::SparseTable* const table_;
};

TEST_F(SyncAggregatorTest, TableFailureIsReportedToAllContributors) {
  StubbornTable table(table_.get());
  table.result = absl::ResourceExhaustedError("full");
  table.go.Notify();
  aggregator_ = std::make_unique<SyncAggregator>(&table);
  Join(0);
  Join(1);
  Push("a", 0, 1, 1, 1);
  Push("b", 1, 1, 1, 1);
  EXPECT_EQ(responses_.Code("a"), absl::StatusCode::kResourceExhausted);
  EXPECT_EQ(responses_.Code("b"), absl::StatusCode::kResourceExhausted);
}

TEST_F(SyncAggregatorTest, RetryWhileItsRoundIsAppliedWaitsForIt) {
  StubbornTable table(table_.get());
  aggregator_ = std::make_unique<SyncAggregator>(&table);
  Join(0);
  std::thread applier([&] { Push("a", 0, 1, 1, 1); });
  table.entered.WaitForNotification();
  Push("a again", 0, 1, 1, 1);
  EXPECT_EQ(responses_.size(), 0u)
      << "neither may be told before it is applied";
  EXPECT_EQ(aggregator_->CompleteRounds(), 1u)
      << "who joins now begins with round 2";
  EXPECT_EQ(aggregator_->Version(), 0u);
  Join(1);
  Push("b", 1, 1, 2, 10);
  Push("a2", 0, 2, 2, 20);
  table.go.Notify();
  applier.join();
  EXPECT_EQ(responses_.size(), 4u);
  EXPECT_EQ(responses_.Code("a again"), kOk);
  EXPECT_EQ(Row(), 31);
}

TEST_F(SyncAggregatorTest, ARoundWaitsForWhatIsDoneBetweenRounds) {
  Join(0);
  Push("a", 0, 1, 1, 1);
  aggregator_->BetweenRounds([&](uint64_t complete_rounds) {
    EXPECT_EQ(complete_rounds, 1u);
    Push("a2", 0, 2, 2, 10);
    EXPECT_EQ(Row(), 1) << "complete, and not applied";
    EXPECT_FALSE(responses_.Has("a2"));
  });
  EXPECT_EQ(responses_.Code("a2"), kOk);
  EXPECT_EQ(Row(), 11);
}

TEST_F(SyncAggregatorTest, WhatIsDoneBetweenRoundsWaitsForTheOneBeingApplied) {
  StubbornTable table(table_.get());
  aggregator_ = std::make_unique<SyncAggregator>(&table);
  Join(0);
  std::thread applier([&] { Push("a", 0, 1, 1, 1); });
  table.entered.WaitForNotification();
  std::thread other([&] {
    aggregator_->BetweenRounds([&](uint64_t complete_rounds) {
      EXPECT_EQ(complete_rounds, 1u);
      EXPECT_EQ(Row(), 1);
    });
  });
  table.go.Notify();
  applier.join();
  other.join();
}

}  // namespace
}  // namespace oarlock::pserver
