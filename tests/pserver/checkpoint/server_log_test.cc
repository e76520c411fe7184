#include "pserver/checkpoint/server_log.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <string>
#include <vector>

#include "absl/strings/match.h"
#include "base/clock.h"
#include "proto/v1/parameter.pb.h"
#include "pserver/aggregator/quorum_aggregator.h"
#include "pserver/aggregator/quorum_timeout.h"
#include "pserver/checkpoint/cut_gate.h"
#include "pserver/fencing/push_ledger.h"
#include "pserver/fencing/worker_fences.h"
#include "pserver/table/table_registry.h"
#include "storage/file_system.h"
#include "storage/push_log.h"
#include "tests/pserver/checkpoint/server_log_testing.h"
#include "tests/pserver/service/push_testing.h"

namespace oarlock::pserver {
namespace {

Life::From AsyncFrom(uint64_t cut) {
  return {.cut = cut, .rounds = 0, .table = SparseConfig(kDim, kRate)};
}

TEST_F(ServerLogTest, AReplayTeachesAQuorumNothingAndLeavesNothingHeld) {
  v1::TableConfig config = DenseConfig(/*size=*/2, /*block_size=*/2, -1);
  config.mutable_dense()->set_quorum(1);
  constexpr int kPushes = 2 * 2 * QuorumTimeout::kQuorumsFirst + 1;
  {
    Life life(directory(), {.table = config, .replay = false});
    for (int push = 0; push < kPushes; ++push) {
      v1::PushDenseRequest request;
      *request.mutable_header() = PushHeader(push % 2, 1, 1 + push / 2);
      request.set_table(config.id());
      request.add_blocks(0);
      for (int i = 0; i < 2; ++i) request.add_values(1);
      ASSERT_TRUE(life.log()
                      .AppendPush(ServerLogKind::kPushDense,
                                  /*has_rounds=*/false, BufferOf(request))
                      .ok());
    }
  }
  Life life(directory(), {.table = config});
  const TableEntry& entry = **life.registry().Find(TableId(config.id()));
  EXPECT_EQ(BlockOf(*entry.dense, BlockIndex(0))[0], kPushes);
  EXPECT_EQ(entry.aggregator->HeldPushes(), 0u);
  EXPECT_EQ(entry.aggregator->OverdueUpdates(), 0u);
  EXPECT_EQ(static_cast<const QuorumAggregator&>(*entry.aggregator).hold(),
            QuorumTimeout::kHoldFirst);
}

TEST_F(ServerLogTest,
       PushesAreRefusedBeyondTwiceTheLimitUnlessThatKeepsOneFromBeingMade) {
  Life life(directory(), AsyncFrom(0));
  uint64_t sequence = 0;
  const auto push = [&] {
    ++sequence;
    return life.Push(PushHeader(0, 1, sequence), Gradients(sequence));
  };
  while (!life.log().over_limit()) {
    ASSERT_LE(life.log().bytes(), kBytesMax);
    ASSERT_TRUE(push().ok());
  }
  EXPECT_GT(life.log().bytes(), kBytesMax) << "a checkpoint is due";
  absl::Status status;
  SparseGradients before;
  while (status.ok()) {
    before = life.rows();
    status = push();
  }
  EXPECT_EQ(status.code(), absl::StatusCode::kResourceExhausted) << status;
  EXPECT_TRUE(absl::StrContains(status.message(), std::to_string(kBytesMax)));
  EXPECT_GT(life.log().bytes(), 2 * kBytesMax);
  EXPECT_LT(life.log().bytes(), 2 * kBytesMax + 2000);
  EXPECT_EQ(life.rows(), before);

  life.OpenCut(1);
  EXPECT_TRUE(push().ok()) << "its worker cannot mark the cut without it";
  // The cut is given up: there is no room.
  life.gate().Finish(1);
  EXPECT_EQ(push().code(), absl::StatusCode::kResourceExhausted);

  // What keeps cuts from being opened is worked off with pushes.
  life.log().SetCutsWait(true);
  EXPECT_TRUE(push().ok());
  life.log().SetCutsWait(false);
  EXPECT_EQ(push().code(), absl::StatusCode::kResourceExhausted);

  life.OpenCut(2);
  EXPECT_TRUE(push().ok());
  life.FreezeCut(2);
  EXPECT_TRUE(push().ok()) << "room is being made; nobody waits for that";
  // The disk was full.
  life.log().OnCutOver();
  EXPECT_EQ(push().code(), absl::StatusCode::kResourceExhausted);

  life.OpenCut(3);
  life.FreezeCut(3);
  ASSERT_TRUE(life.log().OnPublished(3, 0).ok());
  life.log().OnCutOver();
  EXPECT_FALSE(life.log().over_limit());
  EXPECT_TRUE(push().ok());
}

TEST_F(ServerLogTest, WhatWasWrittenIsAppliedAgainOnce) {
  SgdModel model(kRate);
  std::vector<float> block;
  {
    Life life(directory(), Life::From());
    ASSERT_TRUE(life.registry().Create(SparseConfig(kDim, kRate)).ok());
    ASSERT_TRUE(life.registry().Create(DenseConfig(5, 5, kRate)).ok());
    for (uint64_t sequence = 1; sequence <= 40; ++sequence) {
      life.registry().clock().AdvanceTo(sequence);
      ASSERT_TRUE(
          life.Push(PushHeader(0, 1, sequence), Gradients(sequence)).ok());
      model.Apply(Gradients(sequence));
    }
    v1::PushDenseRequest dense;
    *dense.mutable_header() = PushHeader(0, 1, 41);
    dense.set_table(2);
    dense.add_blocks(0);
    dense.set_num_steps(1);
    for (int i = 0; i < 5; ++i) dense.add_values(i + .25f);
    ASSERT_TRUE(life.log()
                    .AppendPush(ServerLogKind::kPushDense, /*has_rounds=*/false,
                                BufferOf(dense))
                    .ok());
  }
  Life again(directory(), Life::From());
  EXPECT_EQ(again.rows(), model.rows());
  EXPECT_EQ(again.registry().clock().Now(), 40u);
  EXPECT_EQ(again.entry().aggregator->Version(), 40u);
  const sparse_table::DenseTable& dense =
      *(*again.registry().Find(TableId(2)))->dense;
  EXPECT_EQ(BlockOf(dense, BlockIndex(0)),
            (std::vector<float>{-.125, -.625, -1.125, -1.625, -2.125}));
  // A worker that got no response sends its last push again.
  ASSERT_TRUE(again.Push(PushHeader(0, 1, 40), Gradients(40), "again").ok());
  EXPECT_GT(again.responses().Get("again").duplicate_groups, 0u);
  EXPECT_EQ(again.rows(), model.rows());
}

TEST_F(ServerLogTest, RecordsBeforeTheCutAreSkippedInAsyncMode) {
  SgdModel all(kRate), after(kRate);
  {
    Life life(directory(), AsyncFrom(0));
    for (uint64_t sequence = 1; sequence <= 20; ++sequence) {
      if (sequence == 8) life.OpenCut(3);
      if (sequence == 12) life.FreezeCut(3);
      ASSERT_TRUE(
          life.Push(PushHeader(0, 1, sequence), Gradients(sequence)).ok());
      all.Apply(Gradients(sequence));
      if (sequence >= 12) after.Apply(Gradients(sequence));
    }
    // It dies before the checkpoint is current: the log has everything.
  }
  EXPECT_EQ(Life(directory(), AsyncFrom(0)).rows(), all.rows());
  // Or after that, before its log was trimmed.
  EXPECT_EQ(Life(directory(), AsyncFrom(3)).rows(), after.rows());
}

TEST_F(ServerLogTest, APublishedCutTakesWhatLiesBeforeIt) {
  SgdModel after(kRate);
  {
    Life life(directory(), AsyncFrom(0));
    for (uint64_t sequence = 1; sequence <= 20; ++sequence) {
      if (sequence == 12) {
        life.OpenCut(3);
        life.FreezeCut(3);
      }
      ASSERT_TRUE(
          life.Push(PushHeader(0, 1, sequence), Gradients(sequence)).ok());
      if (sequence >= 12) after.Apply(Gradients(sequence));
    }
    ASSERT_TRUE(life.log().OnPublished(3, 0).ok());
  }
  const std::vector<SeenRecord> left = RecordsOf(directory());
  EXPECT_TRUE(std::all_of(left.begin(), left.end(),
                          [](const SeenRecord& r) { return r.cut == 3; }));
  EXPECT_EQ(left.size(), 2 + 9u) << "boot, members, and a record for each push";
  EXPECT_EQ(Life(directory(), AsyncFrom(3)).rows(), after.rows());
}

TEST_F(ServerLogTest, ALogThatIsNotWantedIsDropped) {
  {
    Life life(directory(), AsyncFrom(0));
    ASSERT_TRUE(life.Push(PushHeader(0, 1, 1), Gradients(1)).ok());
  }
  Life::From without;
  without.replay = false;
  { Life life(directory(), without); }
  const std::vector<SeenRecord> left = RecordsOf(directory());
  ASSERT_EQ(left.size(), 1u);
  EXPECT_EQ(left[0].kind, ServerLogKind::kBoot);
}

TEST_F(ServerLogTest, ALogOfAnotherBootMayLackItsEnd) {
  const auto of_boot = [](uint64_t cut, const std::string& boot_id) {
    Life::From from = AsyncFrom(cut);
    from.boot_id = boot_id;
    return from;
  };
  {
    Life life(directory(), of_boot(0, "first"));
    EXPECT_FALSE(life.log().may_lack_its_end()) << "it had none";
    for (uint64_t sequence = 1; sequence <= 100; ++sequence) {
      ASSERT_TRUE(
          life.Push(PushHeader(2, 7, sequence), Gradients(sequence)).ok());
    }
  }
  EXPECT_FALSE(Life(directory(), of_boot(0, "first")).log().may_lack_its_end());
  {
    Life life(directory(), of_boot(0, "second"));
    EXPECT_TRUE(life.log().may_lack_its_end());
    ASSERT_EQ(life.log().replayed_of_workers().size(), 1u);
    const v1::ReplayedPushes& replayed = life.log().replayed_of_workers()[0];
    EXPECT_EQ(replayed.worker_index(), 2u);
    EXPECT_EQ(replayed.worker_generation(), 7u);
    ASSERT_EQ(replayed.pushes_size(), 64);
    EXPECT_EQ(replayed.pushes(0).sequence(), 37u);
    EXPECT_EQ(replayed.pushes(63).sequence(), 100u);
    EXPECT_EQ(replayed.pushes(63).messages(), 1u);
  }
  {
    // Whoever was to be told may not have come back yet.
    Life life(directory(), of_boot(0, "second"));
    EXPECT_TRUE(life.log().may_lack_its_end());
    ASSERT_TRUE(life.Push(PushHeader(2, 7, 101), Gradients(1)).ok());
    life.OpenCut(3);
    life.FreezeCut(3);
    ASSERT_TRUE(life.log().OnPublished(3, 0).ok());
  }
  EXPECT_FALSE(
      Life(directory(), of_boot(3, "second")).log().may_lack_its_end());
  // A kernel that does not tell.
  EXPECT_TRUE(Life(directory(), of_boot(3, "")).log().may_lack_its_end());
}

TEST_F(ServerLogTest, ARecordOfAnotherReleaseIsDataLoss) {
  const FakeClock clock;
  {
    auto log = storage::PushLog::Open(
        {.directory = directory()}, storage::FileSystem::Real(), clock,
        [](const storage::LogRecord&) { return absl::OkStatus(); });
    ASSERT_TRUE(log.ok());
    const absl::string_view bytes = "something";
    ASSERT_TRUE((*log)->Append(99, 0, {&bytes, 1}).ok());
  }
  WorkerFences fences(1);
  PushLedger ledger(&fences);
  TableRegistry registry(cluster::PartitionMap::Even(1, 1), ServerIndex(0),
                         clock);
  HoldBudget budget(1 << 30);
  CutGate gate(&budget);
  const absl::Status status =
      ServerLog::Open({.directory = directory(), .replay = true}, &registry,
                      &ledger, &gate, clock)
          .status();
  EXPECT_EQ(status.code(), absl::StatusCode::kDataLoss) << status;
  EXPECT_TRUE(absl::StrContains(status.message(), "kind 99")) << status;
}

}  // namespace
}  // namespace oarlock::pserver
