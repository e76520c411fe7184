// Damage of what a cut saved is an error that names the partition, never a
// table and never a crash.

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cstring>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "base/mix.h"
#include "base/random.h"
#include "sparse_table/cut/table_restore.h"
#include "sparse_table/rows/packed_rows.h"
#include "sparse_table/rows/row_layout.h"
#include "sparse_table/sparse_table.h"
#include "tests/sparse_table/cut_testing.h"
#include "tests/sparse_table/table_testing.h"

namespace oarlock::sparse_table {
namespace {

using ::testing::HasSubstr;

// What a cut saved of a partition, and what must not be taken for it.
class RestoreDamageTest : public testing::Test {
 protected:
  RestoreDamageTest() {
    v1::TableConfig config = SparseConfig(kCutDim, AdagradOptimizer());
    config.mutable_sparse()->mutable_admission()->mutable_count()->set_pushes(
        2);
    config.mutable_sparse()->mutable_admission()->set_sketch_bytes(65536);
    config_ = config;
    table_ = MakeCutTable(config);
    PushKeys(0, 600, *table_, 1);
    PushKeys(0, 500, *table_, 1);
    EXPECT_TRUE(SaveAll(SaveKind::kFull, *table_, &archive_).ok());
    chain_ = archive_.chains().at(PartitionIndex(1));
    packed_ = chain_[0].rows[0];
    state_ = chain_[0].partition.state;
    row_bytes_ = table_->cuts().row_bytes();
    fresh_ = MakeCutTable(config);
  }

  void ExpectDataLoss(const absl::Status& status, const std::string& why) {
    EXPECT_EQ(status.code(), absl::StatusCode::kDataLoss) << status;
    EXPECT_THAT(std::string(status.message()), HasSubstr("partition 1: "));
    EXPECT_THAT(std::string(status.message()), HasSubstr(why));
  }
  // Puts the rows in and finishes with a state that was changed.
  absl::Status Finish(
      const std::function<void(v1::SparsePartitionState*)>& change) {
    fresh_ = MakeCutTable(config_);
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
  while (PartitionOfMix(Mix(Key{key}), kCutBits) == kIndex) ++key;
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
    fresh_ = MakeCutTable(config_);
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
    fresh_ = MakeCutTable(config_, round % 50 == 0 ? 9 : 0);
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
}  // namespace oarlock::sparse_table
