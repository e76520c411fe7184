#include "pserver/checkpoint/push_journal.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <filesystem>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/match.h"
#include "proto/parameter.pb.h"
#include "pserver/membership.h"
#include "pserver/push_ledger.h"
#include "pserver/quorum_aggregator.h"
#include "pserver/quorum_patience.h"
#include "pserver/table_registry.h"
#include "storage/push_log.h"
#include "storage/push_log_reader.h"
#include "tests/pserver/push_answers.h"
#include "tests/pserver/push_testing.h"

namespace oarlock {
namespace {

constexpr uint32_t kDim = 3;
constexpr float kRate = 0.5f;
constexpr uint64_t kBytesMax = 64 << 10;
constexpr size_t kMemberBytes = 13;

std::string FreshFolder(const std::string& name) {
  const std::string path = testing::TempDir() + "/push_journal_" + name;
  std::filesystem::remove_all(path);
  return path;
}

// As it comes from the network, in two slices.
grpc::ByteBuffer BufferOf(const google::protobuf::Message& message) {
  const std::string bytes = message.SerializeAsString();
  const grpc::Slice slices[] = {
      grpc::Slice(bytes.substr(0, bytes.size() / 3)),
      grpc::Slice(bytes.substr(bytes.size() / 3))};
  return grpc::ByteBuffer(slices, 2);
}

grpc::ByteBuffer SparseMessage(const v1::RequestHeader& header,
                               const SparseGradients& gradients) {
  const PushSparseRequestView view = SparsePushOf(header, gradients);
  v1::PushSparseRequest request;
  *request.mutable_header() = header;
  request.set_table(view.table.value());
  for (const KeyGroup& group : view.groups) {
    request.add_partitions(group.partition.value());
    request.add_group_sizes(group.num_keys);
  }
  std::vector<Key> keys(view.num_keys);
  view.keys.CopyTo(0, keys.size() * sizeof(Key), keys.data());
  for (const Key key : keys) request.add_keys(static_cast<uint64_t>(key));
  request.mutable_values()->Resize(view.num_values, 0);
  view.values.CopyTo(0, view.num_values, request.mutable_values()->mutable_data());
  return BufferOf(request);
}

// One life of a server and what the log does to its tables.
class Life {
 public:
  // What it begins with: the checkpoint of a cut.
  struct From {
    uint64_t cut = 0;
    uint64_t rounds = 0;
    // Without rows. None: the log is to create it.
    std::optional<v1::TableConfig> table;
    bool replay = true;
  };

  Life(const std::string& directory, const From& from)
      : registry_(PartitionMap::Even(1u << kTestPartitionBits, 1),
                  ServerIndex(0)) {
    gate_.Announce(from.cut);
    gate_.Settle(from.cut);
    if (from.table.has_value()) {
      const auto entry = registry_.CreateRestored(*from.table);
      EXPECT_TRUE(entry.ok()) << entry.status();
      (*entry)->aggregator->Restore(from.rounds, from.rounds);
    }
    auto journal = PushJournal::Open({.directory = directory,
                                      .bytes_max = kBytesMax,
                                      .replay = from.replay},
                                     &registry_, &ledger_, &gate_);
    EXPECT_TRUE(journal.ok()) << journal.status();
    if (journal.ok()) journal_ = *std::move(journal);
  }
  ~Life() { registry_.Shutdown(); }

  // As the data plane does it: written, then applied.
  absl::Status Push(const v1::RequestHeader& header,
                    const SparseGradients& gradients,
                    const std::string& name = "") {
    absl::Status written;
    const auto apply = [&](const absl::Status& status) {
      ASSERT_TRUE(status.ok()) << status;
      written = journal_->AppendPush(JournalKind::kPushSparse,
                                     entry().config.mode(),
                                     SparseMessage(header, gradients));
      if (!written.ok()) return;
      entry().aggregator->PushSparse(SparsePushOf(header, gradients),
                                     answers_.Expect(name));
    };
    if (entry().config.mode() == v1::SYNC) {
      apply(absl::OkStatus());
    } else {
      gate_.Pass(gate_.settled(), apply);
    }
    return written;
  }
  void Join(uint32_t worker) {
    registry_.SetRoundMember(WorkerIndex(worker), Generation(1), true);
  }
  // A cut, from its opening to the checkpoint.
  void OpenCut(uint64_t cut) { gate_.Announce(cut); }
  void FreezeCut(uint64_t cut) {
    gate_.Freeze(cut, [] {});
    EXPECT_TRUE(journal_->OnFrozen().ok());
  }

  TableEntry& entry() { return **registry_.Find(TableId(1)); }
  SparseGradients rows() { return RowsOf(*entry().sparse); }
  uint64_t rounds() { return entry().aggregator->CompleteRounds(); }
  TableRegistry& registry() { return registry_; }
  CutGate& gate() { return gate_; }
  PushJournal& journal() { return *journal_; }
  PushAnswers& answers() { return answers_; }

 private:
  // What a ledger says of a log: push_journal_ledger_test.
  Membership membership_{/*num_workers=*/8};
  PushLedger ledger_{&membership_};
  TableRegistry registry_;
  CutGate gate_;
  PushAnswers answers_;
  std::unique_ptr<PushJournal> journal_;
};

Life::From AsyncFrom(uint64_t cut) {
  return {.cut = cut, .rounds = 0, .table = SparseConfig(kDim, kRate)};
}

Life::From SyncFrom(uint64_t cut, uint64_t rounds) {
  return {.cut = cut,
          .rounds = rounds,
          .table = SparseConfig(kDim, kRate, v1::SYNC)};
}

struct SeenRecord {
  JournalKind kind;
  uint64_t cut = 0;
  size_t bytes = 0;
};

std::vector<SeenRecord> RecordsOf(const std::string& directory) {
  std::vector<SeenRecord> records;
  const auto read = ReadPushLog(
      FileSystem::Real(), directory, [&](const LogRecord& record) {
        records.push_back({static_cast<JournalKind>(record.kind), record.cut,
                           record.bytes.size()});
        return absl::OkStatus();
      });
  EXPECT_TRUE(read.ok()) << read.status();
  return records;
}

SparseGradients Gradients(uint64_t seed) {
  return RandomGradients(seed, /*num_keys=*/30, /*key_bound=*/200, kDim);
}

TEST(PushJournalTest, AReplayTeachesAQuorumNothingAndLeavesNothingHeld) {
  const std::string folder = FreshFolder("quorum");
  v1::TableConfig config = DenseConfig(/*size=*/2, /*block_size=*/2, -1);
  config.mutable_dense()->set_quorum(1);
  constexpr int kPushes = 2 * 2 * QuorumPatience::kQuorumsFirst + 1;
  {
    Life life(folder, {.table = config, .replay = false});
    for (int push = 0; push < kPushes; ++push) {
      v1::PushDenseRequest request;
      *request.mutable_header() = PushHeader(push % 2, 1, 1 + push / 2);
      request.set_table(config.id());
      request.add_blocks(0);
      for (int i = 0; i < 2; ++i) request.add_values(1);
      ASSERT_TRUE(life.journal()
                      .AppendPush(JournalKind::kPushDense, v1::ASYNC,
                                  BufferOf(request))
                      .ok());
    }
  }
  Life life(folder, {.table = config});
  const TableEntry& entry = **life.registry().Find(TableId(config.id()));
  EXPECT_EQ(BlockOf(*entry.dense, BlockIndex(0))[0], kPushes);
  EXPECT_EQ(entry.aggregator->HeldPushes(), 0u);
  EXPECT_EQ(entry.aggregator->OverdueUpdates(), 0u);
  EXPECT_EQ(static_cast<const QuorumAggregator&>(*entry.aggregator).hold(),
            QuorumPatience::kHoldFirst);
}

TEST(PushJournalTest, PushesAreRefusedBeyondTwiceTheLimitUnlessThatKeepsOneFromBeingMade) {
  Life life(FreshFolder("limit"), AsyncFrom(0));
  uint64_t sequence = 0;
  const auto push = [&] {
    ++sequence;
    return life.Push(PushHeader(0, 1, sequence), Gradients(sequence));
  };
  while (!life.journal().over_limit()) {
    ASSERT_LE(life.journal().bytes(), kBytesMax);
    ASSERT_TRUE(push().ok());
  }
  EXPECT_GT(life.journal().bytes(), kBytesMax) << "a checkpoint is due";
  absl::Status status;
  SparseGradients before;
  while (status.ok()) {
    before = life.rows();
    status = push();
  }
  EXPECT_EQ(status.code(), absl::StatusCode::kResourceExhausted) << status;
  EXPECT_TRUE(absl::StrContains(status.message(), std::to_string(kBytesMax)));
  EXPECT_GT(life.journal().bytes(), 2 * kBytesMax);
  EXPECT_LT(life.journal().bytes(), 2 * kBytesMax + 2000);
  EXPECT_EQ(life.rows(), before);

  life.OpenCut(1);
  EXPECT_TRUE(push().ok()) << "its worker cannot mark the cut without it";
  // The cut is given up: there is no room.
  life.gate().Settle(1);
  EXPECT_EQ(push().code(), absl::StatusCode::kResourceExhausted);

  // What keeps cuts from being opened is worked off with pushes.
  life.journal().SetCutsWait(true);
  EXPECT_TRUE(push().ok());
  life.journal().SetCutsWait(false);
  EXPECT_EQ(push().code(), absl::StatusCode::kResourceExhausted);

  life.OpenCut(2);
  EXPECT_TRUE(push().ok());
  life.FreezeCut(2);
  EXPECT_TRUE(push().ok()) << "room is being made; nobody waits for that";
  // The disk was full.
  life.journal().OnCutOver();
  EXPECT_EQ(push().code(), absl::StatusCode::kResourceExhausted);

  life.OpenCut(3);
  life.FreezeCut(3);
  ASSERT_TRUE(life.journal().OnPublished(3, 0).ok());
  life.journal().OnCutOver();
  EXPECT_FALSE(life.journal().over_limit());
  EXPECT_TRUE(push().ok());
}

TEST(PushJournalTest, WhatWasWrittenIsAppliedAgainOnce) {
  const std::string directory = FreshFolder("async");
  SgdModel model(kRate);
  std::vector<float> block;
  {
    Life life(directory, Life::From());
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
    ASSERT_TRUE(life.journal()
                    .AppendPush(JournalKind::kPushDense, v1::ASYNC,
                                BufferOf(dense))
                    .ok());
  }
  Life again(directory, Life::From());
  EXPECT_EQ(again.rows(), model.rows());
  EXPECT_EQ(again.registry().clock().Now(), 40u);
  EXPECT_EQ(again.entry().aggregator->Version(), 40u);
  const DenseTable& dense = *(*again.registry().Find(TableId(2)))->dense;
  EXPECT_EQ(BlockOf(dense, BlockIndex(0)),
            (std::vector<float>{-.125, -.625, -1.125, -1.625, -2.125}));
  // A worker that got no answer sends its last push again.
  ASSERT_TRUE(again.Push(PushHeader(0, 1, 40), Gradients(40), "again").ok());
  EXPECT_GT(again.answers().Get("again").duplicate_groups, 0u);
  EXPECT_EQ(again.rows(), model.rows());
}

TEST(PushJournalTest, EvictionsAreDoneAgainWhereTheyWereDone) {
  const std::string directory = FreshFolder("evictions");
  SparseGradients rows;
  {
    Life life(directory, Life::From());
    ASSERT_TRUE(life.registry().Create(SparseConfig(kDim, kRate)).ok());
    for (uint64_t sequence = 1; sequence <= 40; ++sequence) {
      life.registry().clock().AdvanceTo(sequence);
      ASSERT_TRUE(
          life.Push(PushHeader(0, 1, sequence), Gradients(sequence)).ok());
      if (sequence % 10 != 0) continue;
      EvictionLimits limits;
      limits.idle_ticks = 3;
      for (uint32_t p = 0; p < 1u << kTestPartitionBits; ++p) {
        const PartitionEviction what = {TableId(1), PartitionIndex(p), limits,
                                        static_cast<uint32_t>(sequence)};
        ASSERT_TRUE(life.journal().AppendEviction(what).ok());
        const auto evicted = life.entry().sparse->Evict(what.partition, limits,
                                                        what.time);
        ASSERT_TRUE(evicted.ok());
      }
    }
    rows = life.rows();
  }
  SgdModel all(kRate);
  for (uint64_t i = 1; i <= 40; ++i) all.Apply(Gradients(i));
  ASSERT_NE(rows, all.rows()) << "some rows lost what they had learned";
  EXPECT_EQ(Life(directory, Life::From()).rows(), rows);
}

TEST(PushJournalTest, RecordsBeforeTheCutAreSkippedInAsyncMode) {
  const std::string directory = FreshFolder("skip");
  SgdModel all(kRate), after(kRate);
  {
    Life life(directory, AsyncFrom(0));
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
  EXPECT_EQ(Life(directory, AsyncFrom(0)).rows(), all.rows());
  // Or after that, before its log was trimmed.
  EXPECT_EQ(Life(directory, AsyncFrom(3)).rows(), after.rows());
}

TEST(PushJournalTest, APublishedCutTakesWhatLiesBeforeIt) {
  const std::string directory = FreshFolder("trim");
  SgdModel after(kRate);
  {
    Life life(directory, AsyncFrom(0));
    for (uint64_t sequence = 1; sequence <= 20; ++sequence) {
      if (sequence == 12) {
        life.OpenCut(3);
        life.FreezeCut(3);
      }
      ASSERT_TRUE(
          life.Push(PushHeader(0, 1, sequence), Gradients(sequence)).ok());
      if (sequence >= 12) after.Apply(Gradients(sequence));
    }
    ASSERT_TRUE(life.journal().OnPublished(3, 0).ok());
  }
  const std::vector<SeenRecord> left = RecordsOf(directory);
  EXPECT_TRUE(std::all_of(left.begin(), left.end(),
                          [](const SeenRecord& r) { return r.cut == 3; }));
  EXPECT_EQ(left.size(), 1 + 9u) << "members, and a record for each push";
  EXPECT_EQ(Life(directory, AsyncFrom(3)).rows(), after.rows());
}

// Two workers; SYNC with the reduction SUM.
class SyncJournalTest : public testing::Test {
 protected:
  static uint64_t SeedOf(uint32_t worker, uint64_t round) {
    return 100 * worker + round;
  }
  void Begin(const std::string& name) {
    directory_ = FreshFolder(name);
    life_.emplace(directory_, Life::From());
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

  std::string directory_;
  std::optional<Life> life_;
};

TEST_F(SyncJournalTest, RoundsAreReplayedWithTheirBits) {
  Begin("sync");
  for (uint64_t round = 1; round <= 6; ++round) FinishRound(round);
  Contribute(0, 7);
  life_.emplace(directory_, Life::From());
  EXPECT_EQ(life_->rounds(), 6u);
  EXPECT_EQ(life_->rows(), RowsAfter(1, 6));
  EXPECT_EQ(life_->entry().aggregator->HeldPushes(), 1u);
  Contribute(1, 7);
  EXPECT_EQ(life_->rounds(), 7u);
  EXPECT_EQ(life_->rows(), RowsAfter(1, 7));
}

TEST_F(SyncJournalTest, TheLogIsTrimmedOneCutLate) {
  Begin("sync_trim");
  for (uint64_t round = 1; round <= 2; ++round) FinishRound(round);
  life_->OpenCut(1);
  life_->FreezeCut(1);
  ASSERT_TRUE(life_->journal().OnPublished(1, 0).ok());
  FinishRound(3);
  EXPECT_EQ(RecordsOf(directory_).front().cut, 0u)
      << "a round behind cut 1 may have contributions from before it opened";
  // Contributed to before cut 2 opens at the end of round 3.
  Contribute(0, 4);
  life_->OpenCut(2);
  life_->FreezeCut(2);
  ASSERT_TRUE(life_->journal().OnPublished(2, 1).ok());
  for (const SeenRecord& record : RecordsOf(directory_)) {
    EXPECT_GE(record.cut, 1u);
  }
  Contribute(1, 4);
  FinishRound(5);
  // It comes back from checkpoint 2: rounds up to 3 are in its tables.
  life_.emplace(directory_, SyncFrom(2, 3));
  EXPECT_EQ(life_->rounds(), 5u);
  EXPECT_EQ(life_->rows(), RowsAfter(4, 5));
}

TEST_F(SyncJournalTest, MembersLieInOneRecordBehindEachCut) {
  Begin("members");
  FinishRound(1);
  life_->OpenCut(1);
  life_->FreezeCut(1);
  FinishRound(2);
  life_->OpenCut(2);
  life_->FreezeCut(2);
  ASSERT_TRUE(life_->journal().OnPublished(2, 1).ok());
  Contribute(0, 3);
  const std::vector<SeenRecord> records = RecordsOf(directory_);
  // The segment of cut 1, whose beginning knows both; a record for each of
  // them would let a contribution in between complete its round.
  ASSERT_EQ(records.front().kind, JournalKind::kRoundMembers);
  EXPECT_EQ(records.front().bytes, 2 * kMemberBytes);
  EXPECT_EQ(std::count_if(records.begin(), records.end(),
                          [](const SeenRecord& record) {
                            return record.kind == JournalKind::kRoundMember;
                          }),
            0);
  life_.emplace(directory_, SyncFrom(2, 2));
  EXPECT_EQ(life_->rounds(), 2u) << "worker 1 is waited for";
  Contribute(1, 3);
  EXPECT_EQ(life_->rounds(), 3u);
  EXPECT_EQ(life_->rows(), RowsAfter(3, 3));
}

TEST(PushJournalTest, ALogThatIsNotWantedIsDropped) {
  const std::string directory = FreshFolder("dropped");
  {
    Life life(directory, AsyncFrom(0));
    ASSERT_TRUE(life.Push(PushHeader(0, 1, 1), Gradients(1)).ok());
  }
  Life::From without;
  without.replay = false;
  { Life life(directory, without); }
  EXPECT_TRUE(RecordsOf(directory).empty());
}

TEST(PushJournalTest, ARecordOfAnotherReleaseIsDataLoss) {
  const std::string directory = FreshFolder("unknown");
  {
    auto log = PushLog::Open({.directory = directory}, FileSystem::Real(),
                             [](const LogRecord&) { return absl::OkStatus(); });
    ASSERT_TRUE(log.ok());
    const absl::string_view bytes = "something";
    ASSERT_TRUE((*log)->Append(99, 0, {&bytes, 1}).ok());
  }
  Membership membership(1);
  PushLedger ledger(&membership);
  TableRegistry registry(PartitionMap::Even(1, 1), ServerIndex(0));
  CutGate gate;
  const absl::Status status =
      PushJournal::Open({.directory = directory, .replay = true}, &registry,
                        &ledger, &gate)
          .status();
  EXPECT_EQ(status.code(), absl::StatusCode::kDataLoss) << status;
  EXPECT_TRUE(absl::StrContains(status.message(), "kind 99")) << status;
}

}  // namespace
}  // namespace oarlock
