// What cuts promise beyond the model (cut_model_test): what is saved when, what
// it costs, and the bytes. Damage: restore_damage_test.

#include <gtest/gtest.h>

#include <map>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "sparse_table/sparse_table.h"
#include "tests/sparse_table/cut_testing.h"
#include "tests/sparse_table/table_testing.h"

namespace oarlock::sparse_table {
namespace {

void EvictAll(SparseTable& table, uint32_t logical_time) {
  v1::EvictionConfig config;
  config.set_idle_ticks(1);
  const absl::StatusOr<EvictionLimits> limits = table.LimitsOf(config);
  ASSERT_TRUE(limits.ok());
  for (uint32_t p = 0; p < table.num_partitions(); ++p) {
    ASSERT_TRUE(table.Evict(PartitionIndex(p), *limits, logical_time + 1).ok());
  }
}

void PullKeys(uint64_t first, size_t num_keys, const SparseTable& table) {
  std::vector<Key> keys;
  for (uint64_t i = 0; i < num_keys; ++i) keys.push_back(Key{first + i});
  const GroupedKeys grouped = Grouped(std::move(keys), kCutBits);
  std::vector<float> values(num_keys * table.config().sparse().dim());
  ASSERT_TRUE(
      table.Pull(grouped.groups, grouped.keys.data(), values.data(), nullptr)
          .ok());
}

std::map<Key, std::pair<uint64_t, std::vector<float>>> RowsOf(
    const SparseTable& table) {
  std::map<Key, std::pair<uint64_t, std::vector<float>>> rows;
  const absl::Status visited =
      table.ForEachRow([&](PartitionIndex, const SparseTable::RowView& row) {
        rows[row.key] = {row.version, std::vector<float>(row.embedding.begin(),
                                                         row.embedding.end())};
      });
  EXPECT_TRUE(visited.ok()) << visited;
  return rows;
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
        MakeCutTable(SparseConfig(kCutDim, AdagradOptimizer()), memory_rows);
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
    const auto restored = MakeCutTable();
    ASSERT_TRUE(archive.Restore(*restored).ok());
    EXPECT_EQ(restored->Stats().rows, 1007u);
  }
}

// Rows that change, go to disk and come back, into cells whose other rows have
// only been pulled: they are in the delta wherever they are at the freeze.
TEST(CutTest, AChangedRowIsInTheDeltaHoweverOftenItMoves) {
  for (const int num_returns : {0, 1, 2}) {
    for (const bool changes_again : {false, true}) {
      SCOPED_TRACE(testing::Message() << num_returns << " " << changes_again);
      const auto table =
          MakeCutTable(SparseConfig(kCutDim, AdagradOptimizer()), 40);
      for (uint64_t first = 0; first < 1000; first += 50) {
        PushKeys(first, 50, *table);
      }
      Archive archive;
      ASSERT_TRUE(SaveAll(SaveKind::kFull, *table, &archive).ok());
      PushKeys(0, 10, *table);
      for (int i = 0; i < num_returns; ++i) {
        for (uint64_t first = 100; first < 900; first += 50) {
          PullKeys(first, 50, *table);
        }
        PullKeys(0, 10, *table);
        if (changes_again) PushKeys(0, 10, *table);
      }
      ASSERT_TRUE(SaveAll(SaveKind::kChanges, *table, &archive).ok());
      EXPECT_EQ(LatestOf(archive).rows, 10u);
      const auto restored = MakeCutTable();
      ASSERT_TRUE(archive.Restore(*restored).ok());
      EXPECT_EQ(RowsOf(*restored), RowsOf(*table));
    }
  }
}

TEST(CutTest, AKeyThatWentAndCameBackIsErasedBeforeItsNewRow) {
  const auto table = MakeCutTable();
  PushKeys(0, 100, *table, 1);
  Archive archive;
  ASSERT_TRUE(SaveAll(SaveKind::kFull, *table, &archive).ok());
  EvictAll(*table, 1);
  PushKeys(50, 10, *table, 3);
  ASSERT_TRUE(SaveAll(SaveKind::kChanges, *table, &archive).ok());
  EXPECT_EQ(LatestOf(archive).erased_keys, 100u);
  EXPECT_EQ(LatestOf(archive).rows, 10u);
  const auto restored = MakeCutTable();
  ASSERT_TRUE(archive.Restore(*restored).ok());
  EXPECT_EQ(restored->Stats().rows, 10u);
  EXPECT_EQ(restored->Stats().evicted_rows, 100u);
}

TEST(CutTest, ACutThatFailedMakesTheNextOneFull) {
  const auto table = MakeCutTable();
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
  const auto table = MakeCutTable();
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
  const auto restored = MakeCutTable();
  ASSERT_TRUE(archive.Restore(*restored).ok());
}

// Rows that come and go are changes too: their list is bounded.
TEST(CutTest, MoreChangesThanRowsAreForgottenAndTheNextCutIsFull) {
  for (const bool while_frozen : {false, true}) {
    const auto table = MakeCutTable();
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
    const auto restored = MakeCutTable();
    ASSERT_TRUE(archive.Restore(*restored).ok());
    EXPECT_EQ(restored->Stats().rows, 60u);
    // And it goes on with deltas.
    PushKeys(0, 10, *table, 1002);
    ASSERT_TRUE(SaveAll(SaveKind::kChanges, *table, &archive).ok());
    EXPECT_EQ(LatestOf(archive).rows, 10u);
  }
}

TEST(CutTest, PreImagesAreFreeAgainOnceThePartitionIsSaved) {
  const auto table = MakeCutTable(SparseConfig(64, AdagradOptimizer()));
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
  const auto a = MakeCutTable();
  const auto b = MakeCutTable(SparseConfig(kCutDim, AdagradOptimizer()), 11);
  PushKeys(0, 500, *a);
  PushKeys(100, 300, *a);
  // In another order, hence in other cells and with other versions.
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
TEST(CutTest, AWorkerThatIsForgottenMeanwhileIsStillInTheCut) {
  const auto table = MakeCutTable();
  PushKeys(0, 1000, *table);
  // PushKeys is worker 0 generation 1.
  const auto windows_of = [](const Archive& archive) {
    std::vector<int> sizes;
    for (const auto& [index, chain] : archive.chains()) {
      sizes.push_back(chain.back().partition.state.windows_size());
    }
    return sizes;
  };
  Archive archive;
  table->cuts().Freeze(SaveKind::kChanges);
  table->ForgetWorker(WorkerIndex(0), Generation(1));
  for (uint32_t p = 0; p < table->num_partitions(); ++p) {
    ASSERT_TRUE(SaveTo(&archive, PartitionIndex(p), *table).ok());
  }
  table->cuts().Thaw(true);
  EXPECT_EQ(windows_of(archive), std::vector<int>(4, 1));
  ASSERT_TRUE(SaveAll(SaveKind::kChanges, *table, &archive).ok());
  EXPECT_EQ(windows_of(archive), std::vector<int>(4, 0));
}

TEST(PackedRowsTest, BytesAreAsTheHeaderSays) {
  v1::TableConfig config = SparseConfig(2, SgdOptimizer(-1), v1::CTR);
  config.mutable_sparse()->mutable_initializer()->set_constant(0);
  const auto table = MakeCutTable(config);
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

}  // namespace
}  // namespace oarlock::sparse_table
