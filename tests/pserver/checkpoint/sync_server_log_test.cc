// The log of pushes of tables in sync mode: rounds, their members, and what a
// cut leaves of both.

#include <gtest/gtest.h>

#include <algorithm>
#include <optional>
#include <string>
#include <vector>

#include "tests/pserver/checkpoint/server_log_testing.h"
#include "tests/pserver/service/push_testing.h"

namespace oarlock::pserver {
namespace {

constexpr size_t kMemberBytes = 13;

Life::From SyncFrom(uint64_t cut, uint64_t rounds) {
  return {.cut = cut,
          .rounds = rounds,
          .table = SparseConfig(kDim, kRate, v1::SYNC)};
}

// Two workers; SYNC with the reduction SUM.
class SyncServerLogTest : public ServerLogTest {
 protected:
  static uint64_t SeedOf(uint32_t worker, uint64_t round) {
    return 100 * worker + round;
  }
  void Begin() {
    life_.emplace(directory(), Life::From());
    ASSERT_TRUE(
        life_->registry().Create(SparseConfig(kDim, kRate, v1::SYNC)).ok());
    life_->Join(0);
    life_->Join(1);
  }
  void Contribute(uint32_t worker, uint64_t round) {
    ASSERT_TRUE(life_
                    ->Push(PushHeader(worker, 1, round, round),
                           Gradients(SeedOf(worker, round)))
                    .ok());
  }
  void FinishRound(uint64_t round) {
    Contribute(1, round);
    Contribute(0, round);
    ASSERT_EQ(life_->rounds(), round);
  }
  // What rounds [first, last] make of a table.
  static SparseGradients RowsAfter(uint64_t first, uint64_t last) {
    SgdModel model(kRate);
    for (uint64_t round = first; round <= last; ++round) {
      const SparseGradients zero = Gradients(SeedOf(0, round));
      const SparseGradients one = Gradients(SeedOf(1, round));
      model.ApplyRound({&zero, &one}, 1);
    }
    return model.rows();
  }

  std::optional<Life> life_;
};

TEST_F(SyncServerLogTest, RoundsAreReplayedWithTheirBits) {
  Begin();
  for (uint64_t round = 1; round <= 6; ++round) FinishRound(round);
  Contribute(0, 7);
  life_.emplace(directory(), Life::From());
  EXPECT_EQ(life_->rounds(), 6u);
  EXPECT_EQ(life_->rows(), RowsAfter(1, 6));
  EXPECT_EQ(life_->entry().aggregator->HeldPushes(), 1u);
  Contribute(1, 7);
  EXPECT_EQ(life_->rounds(), 7u);
  EXPECT_EQ(life_->rows(), RowsAfter(1, 7));
}

TEST_F(SyncServerLogTest, TheLogIsTrimmedOneCutLate) {
  Begin();
  for (uint64_t round = 1; round <= 2; ++round) FinishRound(round);
  life_->OpenCut(1);
  life_->FreezeCut(1);
  ASSERT_TRUE(life_->log().OnPublished(1, 0).ok());
  FinishRound(3);
  EXPECT_EQ(RecordsOf(directory()).front().cut, 0u)
      << "a round behind cut 1 may have contributions from before it opened";
  // Contributed to before cut 2 opens at the end of round 3.
  Contribute(0, 4);
  life_->OpenCut(2);
  life_->FreezeCut(2);
  ASSERT_TRUE(life_->log().OnPublished(2, 1).ok());
  for (const SeenRecord& record : RecordsOf(directory())) {
    EXPECT_GE(record.cut, 1u);
  }
  Contribute(1, 4);
  FinishRound(5);
  // It comes back from checkpoint 2: rounds up to 3 are in its tables.
  life_.emplace(directory(), SyncFrom(2, 3));
  EXPECT_EQ(life_->rounds(), 5u);
  EXPECT_EQ(life_->rows(), RowsAfter(4, 5));
}

TEST_F(SyncServerLogTest, MembersLieInOneRecordBehindEachCut) {
  Begin();
  FinishRound(1);
  life_->OpenCut(1);
  life_->FreezeCut(1);
  FinishRound(2);
  life_->OpenCut(2);
  life_->FreezeCut(2);
  ASSERT_TRUE(life_->log().OnPublished(2, 1).ok());
  Contribute(0, 3);
  const std::vector<SeenRecord> records = RecordsOf(directory());
  // The segment of cut 1, whose beginning knows both; a record for each of
  // them would let a contribution in between complete its round.
  ASSERT_GE(records.size(), 2u);
  EXPECT_EQ(records[0].kind, ServerLogKind::kBoot);
  ASSERT_EQ(records[1].kind, ServerLogKind::kRoundMembers);
  EXPECT_EQ(records[1].bytes, 2 * kMemberBytes);
  EXPECT_EQ(std::count_if(records.begin(), records.end(),
                          [](const SeenRecord& record) {
                            return record.kind == ServerLogKind::kRoundMember;
                          }),
            0);
  life_.emplace(directory(), SyncFrom(2, 2));
  EXPECT_EQ(life_->rounds(), 2u) << "worker 1 is waited for";
  Contribute(1, 3);
  EXPECT_EQ(life_->rounds(), 3u);
  EXPECT_EQ(life_->rows(), RowsAfter(3, 3));
}

}  // namespace
}  // namespace oarlock::pserver
