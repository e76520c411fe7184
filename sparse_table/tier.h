// The two tiers of a table with a memory budget: rows in memory, and cold rows
// on disk (storage/cold_rows.h).
//
// A row is read from disk when a pull or a push names it and stays in memory
// until the clock hand of its partition finds that nobody has pushed to it for
// a turn. Memory wins: what is on disk under a key with a row in memory is an
// older copy of that row. Hence
//
// 1. there is something on disk only under keys that have a row: who evicts a
//    row deletes its copy first;
// 2. rows are demoted at the beginning of a group alone, under its partition's
//    exclusive lock: nobody holds a reference to a row then.

#ifndef OARLOCK_SPARSE_TABLE_TIER_H_
#define OARLOCK_SPARSE_TABLE_TIER_H_

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/functional/function_ref.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "base/key_group.h"
#include "base/types.h"
#include "sparse_table/partition.h"
#include "sparse_table/rows/row_layout.h"
#include "sparse_table/rows/row_space.h"
#include "storage/cold_rows.h"

namespace oarlock::sparse_table {

struct TierOptions {
  // Of the whole table: its share is budget_bytes / partitions for each.
  uint64_t budget_bytes = 0;
  int partition_bits = 0;
  // Where cold rows lie; see ScratchDir::Create.
  std::string directory;
  // Rows of a partition in memory; 0: as many as its share of the budget holds.
  size_t partition_memory_rows = 0;
};

// Thread-safe, the functions with a partition as its lock says. Errors of the
// disk are those of ColdRows and name the directory; whatever the call was to
// do has not been done then.
class Tier {
 public:
  // Demoted at a time, as a share of the quota: one write for many rows.
  static constexpr size_t kDemotedShare = 16;

  // `rows` outlives this. InvalidArgument when the budget is below a chunk of
  // rows and its index for each partition; else as ColdRows::Create.
  static absl::StatusOr<std::unique_ptr<Tier>> Create(
      const RowSpace* rows, const TierOptions& options);

  // Rows of a partition in memory. A larger group is in memory as a whole.
  size_t quota() const { return quota_; }
  const storage::ColdRows& cold_rows() const { return *cold_rows_; }

  // Begins a group of a push: every row that `keys` name is in memory then, and
  // there is room for rows for the others, which have none. ResourceExhausted
  // as Partition::Reserve.
  absl::Status BringGroup(PartitionIndex index, absl::Span<const Key> keys,
                          Partition* partition)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(partition->lock());

  // Deletes what is on disk under `keys`.
  absl::Status Forget(PartitionIndex index, absl::Span<const Key> keys,
                      const Partition& partition)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(partition.lock());

  // Reads the row on disk under `key` into `row`; whether there is one.
  absl::StatusOr<bool> Read(PartitionIndex index, Key key,
                            std::byte* row) const;
  // Calls `visit` with what is on disk, or was (a snapshot of cold_rows()), for
  // at most `max_rows` keys of the partition, ascending from `first` on, some
  // of which may be in memory as well. The key to go on from; none at the end.
  absl::StatusOr<std::optional<Key>> VisitDisk(
      const storage::ColdRowsReader& from, PartitionIndex index, Key first,
      size_t max_rows,
      absl::FunctionRef<void(const std::byte* row)> visit) const;
  // The same for what is there of `keys`.
  absl::Status ReadDisk(
      const storage::ColdRowsReader& from, PartitionIndex index,
      absl::Span<const Key> keys,
      absl::FunctionRef<void(const std::byte* row)> visit) const;

 private:
  friend class ColdLookup;

  Tier(const RowSpace* rows, size_t quota,
       std::unique_ptr<storage::ColdRows> cold_rows)
      : rows_(*rows), quota_(quota), cold_rows_(std::move(cold_rows)) {}

  // Makes `num_new` rows fit into the quota, as far as it can; whether rows
  // were demoted for it.
  absl::StatusOr<bool> MakeRoom(PartitionIndex index, size_t num_new,
                                Partition* partition)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(partition->lock());
  absl::Status Demote(PartitionIndex index, size_t num_rows,
                      Partition* partition)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(partition->lock());
  // Reads any number of rows, without their keys.
  absl::Status ReadAll(const storage::ColdRowsReader& from,
                       absl::Span<const storage::ColdRows::RowName> names,
                       std::vector<std::byte>* stored,
                       std::vector<char>* found) const;
  // Those of them that were found and are not in memory. REQUIRES: room was
  // reserved.
  void Insert(absl::Span<const storage::ColdRows::RowName> names,
              const std::byte* stored, const char* found, Partition* partition)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(partition->lock());

  // On disk lies a row without its key.
  size_t stored_bytes() const {
    return rows_.layout().row_bytes() - sizeof(Key);
  }
  static RowHeader HeaderOf(Key key, const std::byte* stored);
  void Restore(Key key, const std::byte* stored, std::byte* row) const;

  // Constant.
  const RowSpace& rows_;
  const size_t quota_;
  const std::unique_ptr<storage::ColdRows> cold_rows_;
};

// What one pull knows of the rows on disk. One thread.
class ColdLookup {
 public:
  using Partitions = std::vector<std::unique_ptr<Partition>>;

  // `tier` may be null: there is nothing on disk then.
  explicit ColdLookup(Tier* tier) : tier_(tier) {}

  // Before the pull locks anything: brings the rows that are named into memory,
  // read in large batches without a lock.
  absl::Status Promote(const Partitions& partitions,
                       absl::Span<const KeyGroup> groups, const Key* keys);

  // The row of a key of group number `group` that has none in memory, or null;
  // it stays until the next call. After an error null, and status() tells.
  const std::byte* RowOf(const Partition& partition, PartitionIndex index,
                         size_t group, Key key)
      ABSL_SHARED_LOCKS_REQUIRED(partition.lock()) {
    if (tier_ == nullptr || partition.tiers().cold_rows == 0 ||
        partition.tiers().disk_version == clean_[group]) {
      return nullptr;
    }
    return ReadRow(index, key);
  }
  const absl::Status& status() const { return status_; }

 private:
  // No version.
  static constexpr uint64_t kNeverClean = ~uint64_t{0};

  struct GroupRead {
    size_t group = 0;
    size_t first_key = 0;
    // names_[first_name, end_name), as of this version.
    size_t first_name = 0;
    size_t end_name = 0;
    uint64_t version = 0;
  };

  const std::byte* ReadRow(PartitionIndex index, Key key);
  absl::Status ReadAndInsert(const Partitions& partitions,
                             absl::Span<const KeyGroup> groups,
                             const Key* keys);
  absl::Status InsertGroup(const GroupRead& read, const KeyGroup& group,
                           const Key* keys, Partition* partition)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(partition->lock());

  Tier* const tier_;
  absl::Status status_;
  // By group: the disk version in which its keys without a row in memory have
  // none on disk.
  std::vector<uint64_t> clean_;
  // Groups that are read together.
  std::vector<GroupRead> reads_;
  std::vector<storage::ColdRows::RowName> names_;
  std::vector<std::byte> stored_;
  std::vector<char> found_;
  std::vector<std::byte> row_;
};

}  // namespace oarlock::sparse_table

#endif  // OARLOCK_SPARSE_TABLE_TIER_H_
