// Cuts against a model: a copy of the map at the freeze is what the cut has to
// give back, whatever pushes, pulls, evictions and moves between the tiers come
// before, between and after its records.

#include <gtest/gtest.h>

#include <algorithm>
#include <cstddef>
#include <memory>
#include <string>
#include <tuple>
#include <utility>
#include <vector>

#include "base/random.h"
#include "sparse_table/sparse_table.h"
#include "tests/sparse_table/cut_testing.h"
#include "tests/sparse_table/rules_model.h"
#include "tests/sparse_table/table_testing.h"

namespace oarlock::sparse_table {
namespace {

constexpr uint64_t kSeed = 77;

std::unique_ptr<SparseTable> MakeTable(const Case& of_rows,
                                       size_t memory_rows) {
  v1::TableConfig config = ConfigOf(of_rows);
  const SparseTableOptions options = WithTiers(memory_rows, &config);
  absl::StatusOr<std::unique_ptr<SparseTable>> table =
      SparseTable::Create(config, kBits, options);
  EXPECT_TRUE(table.ok()) << table.status();
  return *std::move(table);
}

// Which of `stamps` each partition has applied.
std::vector<bool> AppliedOf(const SparseTable& table,
                            const std::vector<PushStamp>& stamps) {
  std::vector<bool> applied;
  for (uint32_t p = 0; p < table.num_partitions(); ++p) {
    for (const PushStamp& stamp : stamps) {
      applied.push_back(table.HasApplied(PartitionIndex(p), stamp));
    }
  }
  return applied;
}

// The second is how many rows of a partition are in memory; 0: all.
class CutModelTest : public testing::TestWithParam<std::tuple<Case, size_t>> {
 protected:
  CutModelTest()
      : of_rows_(std::get<0>(GetParam())),
        memory_rows_(std::get<1>(GetParam())),
        table_(MakeTable(of_rows_, memory_rows_)),
        model_(table_->config()),
        traffic_(table_->config(), kSeed),
        random_(kSeed + 1) {}

  void Steps(uint64_t num_steps) {
    for (uint64_t i = 0; i < num_steps && !HasFatalFailure(); ++i) {
      traffic_.Step(*table_, model_);
    }
  }

  // One cut, with traffic between its records; whether it succeeded. Those
  // that fail do so in the middle.
  bool Cut(SaveKind kind, bool fails) {
    table_->cuts().Freeze(kind);
    frozen_ = std::make_unique<Model>(model_);
    then_ = std::make_unique<RandomTraffic>(traffic_);
    applied_ = AppliedOf(*table_, then_->stamps());
    std::vector<uint32_t> order;
    for (uint32_t p = 0; p < table_->num_partitions(); ++p) order.push_back(p);
    std::shuffle(order.begin(), order.end(), random_);
    const size_t num_saved = fails ? random_.Below(order.size()) : order.size();
    Archive next = archive_;
    for (size_t i = 0; i < num_saved; ++i) {
      Steps(random_.Below(4));
      Save(PartitionIndex(order[i]), &next);
    }
    if (fails) {
      Steps(random_.Below(4));
      SaveHalf(PartitionIndex(order[num_saved]));
    }
    Steps(random_.Below(4));
    table_->cuts().Thaw(!fails);
    if (!fails) archive_ = std::move(next);
    return !fails;
  }

  void Save(PartitionIndex index, Archive* archive) {
    // From a few rows to all in one record.
    RecordKeeper keeper(size_t{1} << (9 + random_.Below(8)));
    keeper.after_record = [&] {
      if (random_.Below(4) == 0) Steps(1);
      return absl::OkStatus();
    };
    absl::StatusOr<SavedPartition> saved =
        table_->cuts().SavePartition(index, keeper);
    ASSERT_TRUE(saved.ok()) << saved.status();
    ASSERT_EQ(saved->saved_rows, keeper.num_saved_rows);
    num_full_ += saved->full;
    num_changes_ += !saved->full;
    num_erased_ += saved->erased_keys;
    keeper.records.partition = *std::move(saved);
    archive->Add(index, std::move(keeper.records));
  }

  void SaveHalf(PartitionIndex index) {
    RecordKeeper keeper(512);
    size_t num_left = random_.Below(4);
    keeper.after_record = [&] {
      Steps(1);
      return num_left-- == 0 ? absl::UnavailableError("disk full")
                             : absl::OkStatus();
    };
    const absl::Status status =
        table_->cuts().SavePartition(index, keeper).status();
    // It may have been shorter than that.
    EXPECT_TRUE(status.ok() || absl::IsUnavailable(status)) << status;
  }

  // What was saved makes the table of the freeze again, in memory or not, which
  // then goes on as that one would have.
  void ExpectRestored(size_t memory_rows) {
    const std::unique_ptr<SparseTable> restored =
        MakeTable(of_rows_, memory_rows);
    const absl::Status status = archive_.Restore(*restored);
    ASSERT_TRUE(status.ok()) << status;
    ExpectSameRows(*restored, *frozen_);
    EXPECT_EQ(AppliedOf(*restored, then_->stamps()), applied_);
    Model copy = *frozen_;
    RandomTraffic later = *then_;
    for (int i = 0; i < 15 && !HasFatalFailure(); ++i) {
      later.Step(*restored, copy);
    }
    ExpectSameRows(*restored, copy);
  }

  const Case of_rows_;
  const size_t memory_rows_;
  std::unique_ptr<SparseTable> table_;
  Model model_;
  RandomTraffic traffic_;
  RandomSequence random_;

  // Of the latest cut.
  std::unique_ptr<Model> frozen_;
  std::unique_ptr<RandomTraffic> then_;
  std::vector<bool> applied_;

  Archive archive_;
  size_t num_full_ = 0;
  size_t num_changes_ = 0;
  size_t num_erased_ = 0;
};

TEST_P(CutModelTest, EveryCutGivesBackTheTableAsItWasAtTheFreeze) {
  bool known = false;
  for (int cut = 0; cut < 12 && !HasFatalFailure(); ++cut) {
    SCOPED_TRACE(testing::Message() << "seed " << kSeed << ", cut " << cut);
    Steps(random_.Below(30));
    const SaveKind kind =
        random_.Below(4) == 0 ? SaveKind::kFull : SaveKind::kChanges;
    const bool fails = random_.Below(5) == 0;
    const size_t full_before = num_full_;
    const bool saved = Cut(kind, fails);
    if (HasFatalFailure()) return;
    if (saved) {
      const bool full = kind == SaveKind::kFull || !known;
      EXPECT_EQ(num_full_ - full_before, full ? table_->num_partitions() : 0);
      ExpectRestored(cut % 2 == 0 ? memory_rows_ : 7);
    }
    known = saved;
  }
  ExpectSameRows(*table_, model_);
  EXPECT_GE(num_full_, 4u);
  EXPECT_GE(num_changes_, 8u);
  EXPECT_GT(num_erased_, 10u);
  if (memory_rows_ > 0) {
    EXPECT_GT(table_->Stats().promoted_rows, 100u);
  }
}

INSTANTIATE_TEST_SUITE_P(
    Cases, CutModelTest,
    testing::Combine(testing::ValuesIn(AllCases()), testing::Values(0, 10, 40)),
    [](const auto& info) {
      const size_t memory_rows = std::get<1>(info.param);
      const std::string name = std::get<0>(info.param).name;
      return memory_rows == 0 ? name
                              : name + std::to_string(memory_rows) + "InMemory";
    });

}  // namespace
}  // namespace oarlock::sparse_table
