// A sparse table's share of one server: unbounded rows under 64-bit keys.
//
// A row has a fixed size for the table: header, embedding, optimizer state
// (sparse_table/rows/row_layout.h). Keys are spread over partitions by the high
// bits of Mix(key); a partition has its own lock, index, rows and push
// windows. All partitions draw 64 KiB chunks from one arena on huge pages.
//
// What a push means beyond the update rule, which keys get a row and which rows
// go is the table's configuration (sparse_table/rules/row_rules.h): statistics
// and their decay (score_rule.h), the extended embedding part, admission
// (admission_rule.h), eviction (eviction.h). With a memory budget rows beyond
// it lie on disk (tier.h); that changes where a row is, never what is in it.

#ifndef OARLOCK_SPARSE_TABLE_SPARSE_TABLE_H_
#define OARLOCK_SPARSE_TABLE_SPARSE_TABLE_H_

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "base/key_group.h"
#include "base/push_stamp.h"
#include "base/types.h"
#include "proto/v1/table.pb.h"
#include "sparse_table/cut/table_cuts.h"
#include "sparse_table/cut/table_restore.h"
#include "sparse_table/rules/eviction.h"
#include "sparse_table/sparse_push.h"

namespace oarlock::sparse_table {

struct SparsePushResult {
  // Groups left alone because they had been applied before.
  uint32_t duplicate_groups = 0;
};

struct SparseTableStats {
  // In memory or on disk.
  uint64_t rows = 0;
  uint64_t row_bytes = 0;
  // Memory of rows and index.
  uint64_t bytes = 0;
  uint64_t pulled_rows = 0;
  uint64_t pushed_rows = 0;
  // Of row_bytes: embedding and optimizer state.
  uint64_t payload_bytes = 0;
  // Rows created.
  uint64_t admitted_rows = 0;
  // Keys of pushes that were dropped since they were not admitted.
  uint64_t rejected_keys = 0;
  uint64_t evicted_rows = 0;

  // With a memory budget. Of `rows`: those on disk alone.
  uint64_t cold_rows = 0;
  // How often a row was moved to disk, and back.
  uint64_t demoted_rows = 0;
  uint64_t promoted_rows = 0;
  // What the rows on disk take there, and in memory beyond `bytes`: buffers,
  // filters, indexes of files.
  uint64_t disk_bytes = 0;
  uint64_t disk_memory_bytes = 0;
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
  // Where a table with a memory budget keeps its rows on disk: a folder of its
  // own (storage/scratch_dir.h).
  std::string tier_directory = {};
  // Rows of a partition in memory; 0: as many as the budget holds. For tests
  // that want few.
  size_t partition_memory_rows = 0;
};

// Thread-safe. Pulls and pushes lock a few partitions at a time (at most four,
// of neighbouring groups), in ascending order, for as long as they work on a
// group; a group is read or applied as a whole. Pulls of a partition share it.
//
// Groups and keys are trusted: partitions ascending, each once, in range, and
// every key in the partition of its group. What comes from outside goes through
// CheckKeyGroups first (sparse_table/check_key_groups.h).
//
// What reads or moves rows on disk may fail as storage/cold_rows.h says:
// DataLoss, ResourceExhausted (a full disk), Internal. Nothing is pulled,
// pushed or evicted by halves then: a group or a row either is or is not.
class SparseTable {
 public:
  // InvalidArgument when `config` is not that of a sparse table or a field is
  // out of range. `partition_bits` in [0, 16]. FailedPrecondition when it has a
  // memory budget and there is no tier_directory, or not one for us.
  static absl::StatusOr<std::unique_ptr<SparseTable>> Create(
      const v1::TableConfig& config, int partition_bits,
      const SparseTableOptions& options = {});

  virtual ~SparseTable() = default;

  // Writes the embedding of each key, [num_keys, dim], and for each group its
  // partition's version (null: not wanted). A key without a row gets its
  // initial value and stays without a row. Keys may occur twice. Only the disk
  // can fail; what was written is worth nothing then.
  virtual absl::Status Pull(absl::Span<const KeyGroup> groups, const Key* keys,
                            float* values, uint64_t* group_versions) const = 0;

  // The same with show and click of each key, [num_keys] each, decayed to the
  // latest logical time that its partition knows; 0 for a key without a row.
  // REQUIRES: the table has statistics (accessor CTR).
  virtual absl::Status PullWithStatistics(absl::Span<const KeyGroup> groups,
                                          const Key* keys, float* values,
                                          float* shows, float* clicks,
                                          uint64_t* group_versions) const = 0;

  // Applies the table's update rules to every row of the push; creates the
  // missing rows of keys that are admitted, and drops the gradients of the
  // others. ResourceExhausted when there is no memory for as many rows as keys
  // are missing: some groups are applied then, as a whole and remembered, the
  // others are not at all, so the same push may be sent again.
  virtual absl::StatusOr<SparsePushResult> Push(const SparsePush& push) = 0;

  // Whether `partition` has applied the push of that name.
  virtual bool HasApplied(PartitionIndex partition,
                          const PushStamp& stamp) const = 0;
  // Forgets which pushes of the worker's incarnations up to `last` have been
  // applied; a cut that is being saved keeps what it found. The caller sees to
  // it that no such push comes any more. Locks one partition at a time.
  virtual void ForgetWorker(WorkerIndex worker, Generation last) = 0;

  // What the configuration, or a command in its form, evicts. InvalidArgument
  // as MakeEvictionLimits.
  virtual const EvictionLimits& eviction() const = 0;
  virtual absl::StatusOr<EvictionLimits> LimitsOf(
      const v1::EvictionConfig& config) const = 0;
  // Evicts the rows of one partition that are beyond `limits` at
  // `logical_time`, while pulls and pushes go on: none waits for more than
  // kCellsPerHold cells. A key whose row was evicted is as one that never had
  // one. `do_step` is called for each step.
  virtual absl::StatusOr<EvictionResult> Evict(PartitionIndex partition,
                                               const EvictionLimits& limits,
                                               uint32_t logical_time,
                                               DoStep do_step) = 0;
  absl::StatusOr<EvictionResult> Evict(PartitionIndex partition,
                                       const EvictionLimits& limits,
                                       uint32_t logical_time) {
    return Evict(partition, limits, logical_time, DoUnrecorded);
  }
  // Does a step again that was recorded; all keys are of this partition.
  virtual absl::Status EvictKeys(PartitionIndex partition,
                                 absl::Span<const Key> keys,
                                 uint32_t logical_time) = 0;
  virtual uint32_t num_partitions() const = 0;

  // Saving the table as it is at one moment (sparse_table/cut/table_cuts.h),
  // and bringing that into one that has just been made (table_restore.h).
  virtual TableCuts& cuts() = 0;
  virtual TableRestore& restore() = 0;

  // A row as it lies in memory or on disk: embedding [dim], optimizer state.
  struct RowView {
    Key key;
    uint64_t version = 0;
    uint32_t last_touch = 0;
    // Both as of the last touch.
    float show = 0;
    float click = 0;
    // Whether the extended part has been created; without one false.
    bool extended = false;
    absl::Span<const float> embedding;
    absl::Span<const float> state;
  };
  // Calls `visit` for every row, partition after partition; within one in the
  // order of creation as long as no row has left memory. A partition is locked
  // while it is visited.
  virtual absl::Status ForEachRow(
      const std::function<void(PartitionIndex, const RowView&)>& visit)
      const = 0;

  virtual SparseTableStats Stats() const = 0;
  // By partition; those of other servers are empty.
  virtual std::vector<SparsePartitionStats> PartitionStats() const = 0;
  virtual const v1::TableConfig& config() const = 0;
  // Goes on under another configuration, which says the same of what rows hold.
  // InvalidArgument for one that is none; FailedPrecondition for rows of
  // another size. Calls that run go by the old one; what config() and
  // eviction() gave stays valid.
  virtual absl::Status Reconfigure(const v1::TableConfig& config) = 0;
};

}  // namespace oarlock::sparse_table

#endif  // OARLOCK_SPARSE_TABLE_SPARSE_TABLE_H_
