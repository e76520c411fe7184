// A sparse table's share of one server: unbounded rows under 64-bit keys.
//
// A row has a fixed size for the table: header, embedding, optimizer state
// (sparse_table/row_layout.h). Keys are spread over partitions by the high
// bits of Mix(key); a partition has its own lock, index, rows and push
// windows. All partitions draw 64 KiB chunks from one arena on huge pages.

#ifndef OARLOCK_SPARSE_TABLE_SPARSE_TABLE_H_
#define OARLOCK_SPARSE_TABLE_SPARSE_TABLE_H_

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "base/key_group.h"
#include "base/push_stamp.h"
#include "base/types.h"
#include "proto/table.pb.h"

namespace oarlock {

// What a push carries for its keys. Arrays are aligned for their type.
struct SparsePush {
  // Ascending partitions, each once. Their sizes sum to the number of keys.
  absl::Span<const KeyGroup> groups;
  // Group after group; a key occurs once in a push.
  const Key* keys = nullptr;
  // [num_keys, dim].
  const float* gradients = nullptr;
  // [num_keys] or null: impressions and clicks to add to the row.
  const float* shows = nullptr;
  const float* clicks = nullptr;
  // The pushes that this one consists of: one in async mode, one per
  // contributing worker in a sync round. A group whose partition has applied
  // all of them is left alone; otherwise it is applied and all are remembered.
  absl::Span<const PushStamp> stamps;
  // The job's logical time, for the rows' last touch.
  uint32_t logical_time = 0;
};

struct SparsePushResult {
  // Groups left alone because they had been applied before.
  uint32_t duplicate_groups = 0;
};

struct SparseTableStats {
  uint64_t rows = 0;
  uint64_t row_bytes = 0;
  // Memory of rows and index.
  uint64_t bytes = 0;
  uint64_t pulled_rows = 0;
  uint64_t pushed_rows = 0;
  // Of row_bytes: embedding and optimizer state.
  uint64_t payload_bytes = 0;
};

// Of one partition, as in SparseTableStats.
struct SparsePartitionStats {
  uint64_t rows = 0;
  uint64_t pulled_rows = 0;
  uint64_t pushed_rows = 0;
};

struct SparseTableOptions {
  // The most memory that rows and index may take; at least one chunk of 64 KiB.
  // 0: the machine's memory.
  uint64_t memory_bytes_max = 0;
};

// Thread-safe. Pulls and pushes lock a few partitions at a time (at most four,
// of neighbouring groups), in ascending order, for as long as they work on a
// group; a group is read or applied as a whole. Pulls of a partition share it.
//
// Groups and keys are trusted: partitions ascending, each once, in range, and
// every key in the partition of its group. What comes from outside goes through
// CheckKeyGroups first (sparse_table/check_key_groups.h).
class SparseTable {
 public:
  // InvalidArgument when `config` is not that of a sparse table or a field is
  // out of range. `partition_bits` in [0, 16].
  static absl::StatusOr<std::unique_ptr<SparseTable>> Create(
      const v1::TableConfig& config, int partition_bits,
      const SparseTableOptions& options = {});

  virtual ~SparseTable() = default;

  // Writes the embedding of each key, [num_keys, dim], and for each group its
  // partition's version (null: not wanted). A key without a row gets its
  // initial value and stays without a row. Keys may occur twice.
  virtual void Pull(absl::Span<const KeyGroup> groups, const Key* keys,
                    float* values, uint64_t* group_versions) const = 0;

  // Applies the table's update rule to every row of the push; creates the rows
  // that are missing. ResourceExhausted when there is no memory for them: some
  // groups are applied then, as a whole and remembered, the others are not at
  // all, so the same push may be sent again.
  virtual absl::StatusOr<SparsePushResult> Push(const SparsePush& push) = 0;

  // Whether `partition` has applied the push of that name.
  virtual bool HasApplied(PartitionIndex partition,
                          const PushStamp& stamp) const = 0;

  // A row as it lies in memory: embedding [dim], optimizer state.
  struct RowView {
    Key key;
    uint64_t version = 0;
    uint32_t last_touch = 0;
    float show = 0;
    float click = 0;
    absl::Span<const float> embedding;
    absl::Span<const float> state;
  };
  // Calls `visit` for every row, partition after partition, in the order of
  // creation. A partition is locked while it is visited.
  virtual void ForEachRow(
      const std::function<void(PartitionIndex, const RowView&)>& visit)
      const = 0;

  virtual SparseTableStats Stats() const = 0;
  // By partition; those of other servers are empty.
  virtual std::vector<SparsePartitionStats> PartitionStats() const = 0;
  virtual const v1::TableConfig& config() const = 0;
};

}  // namespace oarlock

#endif  // OARLOCK_SPARSE_TABLE_SPARSE_TABLE_H_
