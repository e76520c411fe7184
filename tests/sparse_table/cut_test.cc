// What cuts promise beyond the model (cut_model_test): what is saved when, what
// it costs, and that damage is an error and never a table.

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cstring>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "base/mix.h"
#include "base/random.h"
#include "sparse_table/packed_rows.h"
#include "sparse_table/row_layout.h"
#include "sparse_table/sparse_table.h"
#include "sparse_table/table_restore.h"
#include "tests/sparse_table/cut_testing.h"
#include "tests/sparse_table/table_testing.h"

namespace oarlock {
namespace {

using ::testing::HasSubstr;

constexpr int kBits = 2;
constexpr uint32_t kDim = 4;

std::unique_ptr<SparseTable> MakeTable(
    v1::TableConfig config = SparseConfig(kDim, AdagradOptimizer()),
    size_t memory_rows = 0) {
  const SparseTableOptions options = WithTiers(memory_rows, &config);
  absl::StatusOr<std::unique_ptr<SparseTable>> table =
      SparseTable::Create(config, kBits, options);
  EXPECT_TRUE(table.ok()) << table.status();
  return *std::move(table);
}

// Pushes 1 to keys [first, first + num_keys).
void PushKeys(uint64_t first, size_t num_keys, SparseTable& table,
              uint32_t logical_time = 0) {
  static uint64_t last_sequence = 0;
  std::vector<Key> keys;
  for (uint64_t i = 0; i < num_keys; ++i) keys.push_back(Key{first + i});
  const GroupedKeys grouped = Grouped(std::move(keys), kBits);
  const std::vector<float> ones(num_keys * table.config().sparse().dim(), 1);
  const PushStamp stamp = Stamp(0, 1, ++last_sequence);
  SparsePush push;
  push.groups = grouped.groups;
  push.keys = grouped.keys.data();
  push.gradients = ones.data();
  push.stamps = {&stamp, 1};
  push.logical_time = logical_time;
  ASSERT_TRUE(table.Push(push).ok());
}

void EvictAll(SparseTable& table, uint32_t logical_time) {
  v1::EvictionConfig config;
  config.set_idle_ticks(1);
  const absl::StatusOr<EvictionLimits> limits = table.LimitsOf(config);
  ASSERT_TRUE(limits.ok());
  for (uint32_t p = 0; p < table.num_partitions(); ++p) {
    ASSERT_TRUE(table.Evict(PartitionIndex(p), *limits, logical_time + 1).ok());
  }
}

// What the latest cut of an archive saved, all partitions together.
struct Totals {
  uint64_t rows = 0;
  uint64_t erased_keys = 0;
  size_t num_full = 0;
};
Totals LatestOf(const Archive& archive) {
  Totals totals;
  for (const auto& [index, chain] : archive.chains()) {
    totals.rows += chain.back().partition.saved_rows;
    totals.erased_keys += chain.back().partition.erased_keys;
    totals.num_full += chain.back().partition.full;
  }
  return totals;
}

TEST(CutTest, ADeltaHasWhatChangedAndNothingElse) {
  for (const size_t memory_rows : {0, 20}) {
    const auto table =
        MakeTable(SparseConfig(kDim, AdagradOptimizer()), memory_rows);
    PushKeys(0, 1000, *table);
    Archive archive;
    ASSERT_TRUE(SaveAll(SaveKind::kChanges, *table, &archive).ok());
    EXPECT_EQ(LatestOf(archive).num_full, 4u) << "the first cut has all rows";
    EXPECT_EQ(LatestOf(archive).rows, 1000u);
    ASSERT_TRUE(SaveAll(SaveKind::kChanges, *table, &archive).ok());
    EXPECT_EQ(LatestOf(archive).num_full, 0u);
    EXPECT_EQ(LatestOf(archive).rows, 0u);
    PushKeys(100, 50, *table);
    PushKeys(120, 10, *table);
    PushKeys(5000, 7, *table);
    ASSERT_TRUE(SaveAll(SaveKind::kChanges, *table, &archive).ok());
    EXPECT_EQ(LatestOf(archive).rows, 57u);
    EXPECT_EQ(LatestOf(archive).erased_keys, 0u);
    const auto restored = MakeTable();
    ASSERT_TRUE(archive.Restore(*restored).ok());
    EXPECT_EQ(restored->Stats().rows, 1007u);
  }
}

TEST(CutTest, AKeyThatWentAndCameBackIsErasedBeforeItsNewRow) {
  const auto table = MakeTable();
  PushKeys(0, 100, *table, 1);
  Archive archive;
  ASSERT_TRUE(SaveAll(SaveKind::kFull, *table, &archive).ok());
  EvictAll(*table, 1);
  PushKeys(50, 10, *table, 3);
  ASSERT_TRUE(SaveAll(SaveKind::kChanges, *table, &archive).ok());
  EXPECT_EQ(LatestOf(archive).erased_keys, 100u);
  EXPECT_EQ(LatestOf(archive).rows, 10u);
  const auto restored = MakeTable();
  ASSERT_TRUE(archive.Restore(*restored).ok());
  EXPECT_EQ(restored->Stats().rows, 10u);
  EXPECT_EQ(restored->Stats().evicted_rows, 100u);
}

TEST(CutTest, ACutThatFailedMakesTheNextOneFull) {
  const auto table = MakeTable();
  PushKeys(0, 1000, *table);
  Archive archive;
  ASSERT_TRUE(SaveAll(SaveKind::kFull, *table, &archive).ok());
  PushKeys(0, 10, *table);
  table->cuts().Freeze(SaveKind::kChanges);
  table->cuts().Thaw(false);
  ASSERT_TRUE(SaveAll(SaveKind::kChanges, *table, &archive).ok());
  EXPECT_EQ(LatestOf(archive).num_full, 4u);
}

TEST(CutTest, APartitionThatWasNotSavedIsSavedAsAWholeNextTime) {
  const auto table = MakeTable();
  PushKeys(0, 1000, *table);
  Archive archive;
  ASSERT_TRUE(SaveAll(SaveKind::kFull, *table, &archive).ok());
  PushKeys(0, 1000, *table);
  table->cuts().Freeze(SaveKind::kChanges);
  for (const uint32_t p : {0, 1, 3}) {
    ASSERT_TRUE(SaveTo(&archive, PartitionIndex(p), *table).ok());
  }
  table->cuts().Thaw(true);
  ASSERT_TRUE(SaveAll(SaveKind::kChanges, *table, &archive).ok());
  EXPECT_EQ(LatestOf(archive).num_full, 1u);
  EXPECT_TRUE(archive.chains().at(PartitionIndex(2)).back().partition.full);
  const auto restored = MakeTable();
  ASSERT_TRUE(archive.Restore(*restored).ok());
}

// Rows that come and go are changes too: their list is bounded.
TEST(CutTest, MoreChangesThanRowsAreForgottenAndTheNextCutIsFull) {
  for (const bool while_frozen : {false, true}) {
    const auto table = MakeTable();
    PushKeys(0, 400, *table, 1);
    Archive archive;
    ASSERT_TRUE(SaveAll(SaveKind::kFull, *table, &archive).ok());
    const uint64_t bytes = table->Stats().bytes;
    if (while_frozen) table->cuts().Freeze(SaveKind::kChanges);
    for (uint32_t round = 1; round < 200; ++round) {
      PushKeys(round * 400, 400, *table, 3 * round);
      EvictAll(*table, 3 * round);
    }
    PushKeys(0, 60, *table, 1000);
    // Of 80,000 changes.
    EXPECT_LT(table->Stats().bytes, bytes + 4 * 100'000);
    if (while_frozen) {
      for (uint32_t p = 0; p < 4; ++p) {
        ASSERT_TRUE(SaveTo(&archive, PartitionIndex(p), *table).ok());
      }
      table->cuts().Thaw(true);
      EXPECT_EQ(LatestOf(archive).num_full, 0u);
      EXPECT_EQ(LatestOf(archive).rows, 0u) << "nothing before the freeze";
      PushKeys(0, 10, *table, 1001);
    }
    ASSERT_TRUE(SaveAll(SaveKind::kChanges, *table, &archive).ok());
    EXPECT_EQ(LatestOf(archive).num_full, 4u);
    EXPECT_EQ(LatestOf(archive).rows, 60u);
    const auto restored = MakeTable();
    ASSERT_TRUE(archive.Restore(*restored).ok());
    EXPECT_EQ(restored->Stats().rows, 60u);
    // And it goes on with deltas.
    PushKeys(0, 10, *table, 1002);
    ASSERT_TRUE(SaveAll(SaveKind::kChanges, *table, &archive).ok());
    EXPECT_EQ(LatestOf(archive).rows, 10u);
  }
}

TEST(CutTest, PreImagesAreFreeAgainOnceThePartitionIsSaved) {
  const auto table = MakeTable(SparseConfig(64, AdagradOptimizer()));
  // The second time room is reserved that later pushes do not use.
  PushKeys(0, 4000, *table);
  PushKeys(0, 4000, *table);
  Archive archive;
  ASSERT_TRUE(SaveAll(SaveKind::kFull, *table, &archive).ok());
  const uint64_t before = table->Stats().bytes;
  table->cuts().Freeze(SaveKind::kFull);
  PushKeys(0, 4000, *table);
  const uint64_t frozen = table->Stats().bytes;
  EXPECT_GT(frozen, before + 4000 * table->cuts().row_bytes());
  PushKeys(0, 4000, *table);
  EXPECT_EQ(table->Stats().bytes, frozen) << "a row is put aside once";
  for (uint32_t p = 0; p < 4; ++p) {
    ASSERT_TRUE(SaveTo(&archive, PartitionIndex(p), *table).ok());
  }
  EXPECT_LT(table->Stats().bytes, before + 100'000);
  table->cuts().Thaw(true);
}

TEST(CutTest, EqualRowsHaveEqualDigestsHoweverTheyCameAbout) {
  const auto a = MakeTable();
  const auto b = MakeTable(SparseConfig(kDim, AdagradOptimizer()), 11);
  PushKeys(0, 500, *a);
  PushKeys(100, 300, *a);
  // In another order, hence in other slots and with other versions.
  for (uint64_t first = 500; first > 0; first -= 100) {
    PushKeys(first - 100, 100, *b, 7);
  }
  PushKeys(250, 150, *b, 8);
  PushKeys(100, 150, *b, 9);
  Archive of_a, of_b;
  ASSERT_TRUE(SaveAll(SaveKind::kFull, *a, &of_a).ok());
  ASSERT_TRUE(SaveAll(SaveKind::kFull, *b, &of_b).ok());
  const auto digest = [](const Archive& archive, uint32_t p) {
    return archive.chains()
        .at(PartitionIndex(p))
        .back()
        .partition.state.digest();
  };
  for (uint32_t p = 0; p < 4; ++p) {
    EXPECT_NE(digest(of_a, p), 0u);
    EXPECT_EQ(digest(of_a, p), digest(of_b, p));
  }
  PushKeys(7, 1, *b);
  ASSERT_TRUE(SaveAll(SaveKind::kFull, *b, &of_b).ok());
  int num_other = 0;
  for (uint32_t p = 0; p < 4; ++p)
    num_other += digest(of_a, p) != digest(of_b, p);
  EXPECT_EQ(num_other, 1);
}

// The bytes are a format: docs/checkpoint_format.md quotes them.
TEST(PackedRowsTest, BytesAreAsTheHeaderSays) {
  v1::TableConfig config = SparseConfig(2, SgdOptimizer(-1), v1::CTR);
  config.mutable_sparse()->mutable_initializer()->set_constant(0);
  const auto table = MakeTable(config);
  PushKeys(0x1122, 1, *table, 0x0a0b0c);
  PushKeys(0x1122, 1, *table, 0x0a0b0d);
  table->cuts().Freeze(SaveKind::kFull);
  std::vector<std::byte> bytes;
  uint64_t digest = 0;
  for (uint32_t p = 0; p < 4; ++p) {
    RecordKeeper keeper;
    const auto saved = table->cuts().SavePartition(PartitionIndex(p), keeper);
    ASSERT_TRUE(saved.ok());
    if (saved->saved_rows == 0) continue;
    bytes = keeper.records.rows.at(0);
    digest = saved->state.digest();
  }
  table->cuts().Thaw(true);
  std::string hex;
  for (const std::byte byte : bytes) {
    absl::StrAppend(&hex, absl::Hex(static_cast<int>(byte), absl::kZeroPad2));
  }
  EXPECT_EQ(hex,
            // Version 2, touch 0x0a0b0d, flags 0: 2 << 28 | 0x0a0b0d << 4.
            "d0b0a020"
            "00000000"
            // Key.
            "2211000000000000"
            // Show and click, two weights of 2.0.
            "00000000"
            "00000000"
            "00000040"
            "00000040");
  // XXH3-64, as another library computes it, of what begins at the key.
  EXPECT_EQ(digest, 0x25e72f9b9fe587b5u);
}

// A base, a delta with erased keys, and what must not be taken for them.
class RestoreDamageTest : public testing::Test {
 protected:
  RestoreDamageTest() {
    v1::TableConfig config = SparseConfig(kDim, AdagradOptimizer());
    config.mutable_sparse()->mutable_admission()->mutable_count()->set_pushes(
        2);
    config.mutable_sparse()->mutable_admission()->set_sketch_bytes(65536);
    config_ = config;
    table_ = MakeTable(config);
    PushKeys(0, 600, *table_, 1);
    PushKeys(0, 500, *table_, 1);
    EXPECT_TRUE(SaveAll(SaveKind::kFull, *table_, &archive_).ok());
    chain_ = archive_.chains().at(PartitionIndex(1));
    packed_ = chain_[0].rows[0];
    state_ = chain_[0].partition.state;
    row_bytes_ = table_->cuts().row_bytes();
    fresh_ = MakeTable(config);
  }

  void ExpectDataLoss(const absl::Status& status, const std::string& why) {
    EXPECT_EQ(status.code(), absl::StatusCode::kDataLoss) << status;
    EXPECT_THAT(std::string(status.message()), HasSubstr("partition 1: "));
    EXPECT_THAT(std::string(status.message()), HasSubstr(why));
  }
  // Puts the rows in and finishes with a state that was changed.
  absl::Status Finish(
      const std::function<void(v1::SparsePartitionState*)>& change) {
    fresh_ = MakeTable(config_);
    const absl::Status status = fresh_->restore().Rows(kIndex, packed_);
    if (!status.ok()) return status;
    v1::SparsePartitionState state = state_;
    change(&state);
    return fresh_->restore().Finish(kIndex, state);
  }

  static constexpr PartitionIndex kIndex{1};
  v1::TableConfig config_;
  std::unique_ptr<SparseTable> table_;
  std::unique_ptr<SparseTable> fresh_;
  Archive archive_;
  std::vector<SavedRecords> chain_;
  std::vector<std::byte> packed_;
  v1::SparsePartitionState state_;
  size_t row_bytes_ = 0;
};

TEST_F(RestoreDamageTest, WhatWasSavedIsTaken) {
  ASSERT_EQ(chain_[0].rows.size(), 1u);
  const absl::Status status = Finish([](auto*) {});
  EXPECT_TRUE(status.ok()) << status;
}

TEST_F(RestoreDamageTest, BytesThatAreNoRowsAreDataLoss) {
  TableRestore& restore = fresh_->restore();
  std::vector<std::byte> bytes = packed_;
  bytes.pop_back();
  ExpectDataLoss(restore.Rows(kIndex, bytes),
                 "bytes; legal is a multiple of 48");
  // The lowest byte of the stamp has the flags.
  bytes = packed_;
  bytes[row_bytes_] |= std::byte{1};
  ExpectDataLoss(restore.Rows(kIndex, bytes), "flags 1; legal");
  bytes = packed_;
  bytes[row_bytes_] |= std::byte{RowHeader::kExtended};
  ExpectDataLoss(restore.Rows(kIndex, bytes), "flags 2; legal");
  bytes = packed_;
  std::fill_n(bytes.begin() + row_bytes_, 8, std::byte{0});
  ExpectDataLoss(restore.Rows(kIndex, bytes), "version 0 and");
  EXPECT_EQ(fresh_->Stats().rows, 0u);
}

TEST_F(RestoreDamageTest, AKeyOfAnotherPartitionIsDataLoss) {
  EXPECT_EQ(fresh_->restore().Rows(PartitionIndex(2), packed_).code(),
            absl::StatusCode::kDataLoss);
  std::vector<std::byte> bytes = packed_;
  uint64_t key = 0;
  while (PartitionOfMix(Mix(Key{key}), kBits) == kIndex) ++key;
  std::memcpy(&bytes[row_bytes_ + PackedRows::kKeyOffset], &key, sizeof(key));
  ExpectDataLoss(fresh_->restore().Rows(kIndex, bytes),
                 "has key " + std::to_string(key));
  ExpectDataLoss(fresh_->restore().Erased(kIndex, {{Key{key}}}),
                 "has key " + std::to_string(key));
  EXPECT_EQ(fresh_->restore().Rows(PartitionIndex(4), packed_).code(),
            absl::StatusCode::kDataLoss);
  EXPECT_EQ(fresh_->restore().Finish(PartitionIndex(4), state_).code(),
            absl::StatusCode::kDataLoss);
}

TEST_F(RestoreDamageTest, AKeyTwiceInARecordIsDataLoss) {
  for (const bool known_before : {false, true}) {
    fresh_ = MakeTable(config_);
    if (known_before) {
      ASSERT_TRUE(fresh_->restore().Rows(kIndex, packed_).ok());
    }
    std::vector<std::byte> bytes = packed_;
    std::copy_n(bytes.begin() + 8, 8, bytes.end() - row_bytes_ + 8);
    ExpectDataLoss(fresh_->restore().Rows(kIndex, bytes), "twice");
  }
}

TEST_F(RestoreDamageTest, AStateThatIsNotThatOfTheRowsIsDataLoss) {
  ExpectDataLoss(Finish([](auto* state) { state->set_rows(5); }),
                 "legal is what its state says, 5");
  ExpectDataLoss(Finish([](auto* state) { state->set_digest(0xabc); }),
                 "0000000000000abc");
  ExpectDataLoss(Finish([](auto* state) { state->set_version(1); }),
                 "its state says version 1");
  ExpectDataLoss(Finish([](auto* state) { state->set_created_rows(3); }),
                 "and 3 created rows");
  EXPECT_TRUE(Finish([](auto* state) { state->set_digest(0); }).ok());
}

TEST_F(RestoreDamageTest, OneFlippedBitOfARowIsFoundByTheDigest) {
  // In the last float of the last row.
  packed_.back() ^= std::byte{1};
  ExpectDataLoss(Finish([](auto*) {}), "its rows have digest");
}

TEST_F(RestoreDamageTest, WindowsThatPushesCannotHaveLeftAreDataLoss) {
  ASSERT_GE(state_.windows_size(), 1);
  const auto change = [&](const auto& set) {
    return Finish([&](auto* state) { set(state->mutable_windows(0)); });
  };
  ExpectDataLoss(change([](auto* window) { window->set_highest(0); }),
                 "has sequence 0");
  ExpectDataLoss(change([](auto* window) { window->set_applied(6); }),
                 "bits 6");
  ExpectDataLoss(
      Finish([](auto* state) { *state->add_windows() = state->windows(0); }),
      "legal is ascending");
}

TEST_F(RestoreDamageTest, ASketchOfAnotherSizeIsDataLoss) {
  ASSERT_EQ(state_.sketch().size(), 8u + 16384u);
  ExpectDataLoss(
      Finish([](auto* state) { state->mutable_sketch()->pop_back(); }),
      "has 16391 bytes; legal is none or 16392");
  config_.mutable_sparse()->clear_admission();
  ExpectDataLoss(Finish([](auto*) {}), "has 16392 bytes; legal is none or 0");
}

// Whatever the bytes are, they are refused or taken: nothing crashes.
TEST_F(RestoreDamageTest, RandomDamageNeverCrashes) {
  constexpr uint64_t kSeed = 8;
  SCOPED_TRACE(testing::Message() << "seed " << kSeed);
  RandomSequence random(kSeed);
  int num_refused = 0;
  for (int round = 0; round < 500; ++round) {
    fresh_ = MakeTable(config_, round % 50 == 0 ? 9 : 0);
    std::vector<std::byte> bytes = packed_;
    bytes.resize(random.Below(2) ? bytes.size()
                                 : random.Below(bytes.size() + 100));
    const size_t num_flips = random.Below(4);
    for (size_t i = 0; i < num_flips && !bytes.empty(); ++i) {
      bytes[random.Below(bytes.size())] ^=
          std::byte{static_cast<uint8_t>(1 << random.Below(8))};
    }
    absl::Status status = fresh_->restore().Rows(kIndex, bytes);
    std::vector<Key> keys;
    for (size_t i = random.Below(5); i > 0; --i) {
      keys.push_back(Key{random.Below(2) ? random.Below(600) : random()});
    }
    status.Update(fresh_->restore().Erased(kIndex, keys));
    std::string state = state_.SerializeAsString();
    if (random.Below(2)) {
      state[random.Below(state.size())] ^=
          static_cast<char>(1 << random.Below(8));
    }
    v1::SparsePartitionState parsed;
    if (parsed.ParseFromString(state)) {
      status.Update(fresh_->restore().Finish(kIndex, parsed));
    }
    num_refused += !status.ok();
    EXPECT_TRUE(status.ok() || absl::IsDataLoss(status)) << status;
  }
  EXPECT_GT(num_refused, 200);
}

}  // namespace
}  // namespace oarlock
