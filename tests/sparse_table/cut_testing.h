// What the tests of cuts share: a sink that keeps records, and what a store of
// checkpoints would do with them.

#ifndef OARLOCK_TESTS_SPARSE_TABLE_CUT_TESTING_H_
#define OARLOCK_TESTS_SPARSE_TABLE_CUT_TESTING_H_

#include <gtest/gtest.h>

#include <cstddef>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "base/types.h"
#include "sparse_table/cut/cut_sink.h"
#include "sparse_table/sparse_table.h"
#include "tests/sparse_table/table_testing.h"

namespace oarlock::sparse_table {

// A small table, of which memory_rows rows of a partition are in memory; 0:
// all.
inline constexpr int kCutBits = 2;
inline constexpr uint32_t kCutDim = 4;

inline std::unique_ptr<SparseTable> MakeCutTable(
    v1::TableConfig config = SparseConfig(kCutDim, AdagradOptimizer()),
    size_t memory_rows = 0) {
  const SparseTableOptions options = WithTiers(memory_rows, &config);
  absl::StatusOr<std::unique_ptr<SparseTable>> table =
      SparseTable::Create(config, kCutBits, options);
  EXPECT_TRUE(table.ok()) << table.status();
  return *std::move(table);
}

// Pushes 1 to keys [first, first + num_keys).
inline void PushKeys(uint64_t first, size_t num_keys, SparseTable& table,
                     uint32_t logical_time = 0) {
  static uint64_t last_sequence = 0;
  std::vector<Key> keys;
  for (uint64_t i = 0; i < num_keys; ++i) keys.push_back(Key{first + i});
  const GroupedKeys grouped = Grouped(std::move(keys), kCutBits);
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

// What one cut saved of one partition.
struct SavedRecords {
  std::vector<std::vector<Key>> erased;
  std::vector<std::vector<std::byte>> rows;
  SavedPartition partition;
};

class RecordKeeper final : public CutSink {
 public:
  explicit RecordKeeper(size_t record_bytes = kRecordBytes)
      : record_bytes_(record_bytes) {}

  // Called after each record; what it returns is what the sink returns.
  std::function<absl::Status()> after_record = [] { return absl::OkStatus(); };

  size_t record_bytes() const override { return record_bytes_; }
  absl::Status Rows(absl::Span<const std::byte> packed,
                    size_t num_rows) override {
    records.rows.emplace_back(packed.begin(), packed.end());
    num_saved_rows += num_rows;
    return after_record();
  }
  absl::Status Erased(absl::Span<const Key> keys) override {
    records.erased.emplace_back(keys.begin(), keys.end());
    return after_record();
  }

  SavedRecords records;
  size_t num_saved_rows = 0;

 private:
  const size_t record_bytes_;
};

// The records of each partition that a restore needs: those of its base and of
// the deltas since.
class Archive {
 public:
  void Add(PartitionIndex index, SavedRecords records) {
    std::vector<SavedRecords>& chain = chains_[index];
    if (records.partition.full) chain.clear();
    chain.push_back(std::move(records));
  }

  absl::Status Restore(SparseTable& table) const {
    for (const auto& [index, unused] : chains_) {
      const absl::Status status = Restore(index, table);
      if (!status.ok()) return status;
    }
    return absl::OkStatus();
  }
  absl::Status Restore(PartitionIndex index, SparseTable& table) const {
    const std::vector<SavedRecords>& chain = chains_.at(index);
    absl::Status status;
    for (const SavedRecords& cut : chain) {
      for (const auto& keys : cut.erased) {
        status.Update(table.restore().Erased(index, keys));
      }
      for (const auto& rows : cut.rows) {
        status.Update(table.restore().Rows(index, rows));
      }
    }
    if (!status.ok()) return status;
    return table.restore().Finish(index, chain.back().partition.state);
  }

  const std::map<PartitionIndex, std::vector<SavedRecords>>& chains() const {
    return chains_;
  }

 private:
  std::map<PartitionIndex, std::vector<SavedRecords>> chains_;
};

// Saves a partition and keeps what it gave.
inline absl::Status SaveTo(Archive* archive, PartitionIndex index,
                           SparseTable& table) {
  RecordKeeper keeper;
  absl::StatusOr<SavedPartition> saved =
      table.cuts().SavePartition(index, keeper);
  if (!saved.ok()) return saved.status();
  keeper.records.partition = *std::move(saved);
  archive->Add(index, std::move(keeper.records));
  return absl::OkStatus();
}

// A whole cut while nothing else goes on.
inline absl::Status SaveAll(SaveKind kind, SparseTable& table,
                            Archive* archive) {
  table.cuts().Freeze(kind);
  absl::Status status;
  for (uint32_t p = 0; p < table.num_partitions(); ++p) {
    status.Update(SaveTo(archive, PartitionIndex(p), table));
  }
  table.cuts().Thaw(status.ok());
  return status;
}

}  // namespace oarlock::sparse_table

#endif  // OARLOCK_TESTS_SPARSE_TABLE_CUT_TESTING_H_
