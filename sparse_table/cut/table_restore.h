// Bringing what cuts have saved into a table.

#ifndef OARLOCK_SPARSE_TABLE_CUT_TABLE_RESTORE_H_
#define OARLOCK_SPARSE_TABLE_CUT_TABLE_RESTORE_H_

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/status/status.h"
#include "absl/types/span.h"
#include "base/types.h"
#include "proto/state/unit_state.pb.h"
#include "sparse_table/partition.h"
#include "sparse_table/rows/packed_rows.h"
#include "sparse_table/rows/row_space.h"
#include "sparse_table/rules/row_rules.h"
#include "sparse_table/tier.h"

namespace oarlock::sparse_table {

// For a table of the same configuration and number of partitions that has just
// been made and that nobody uses before all of it is finished. For each
// partition: what its base saved, then cut after cut what its deltas erased and
// saved, then Finish with the last one's state. Different partitions may be
// restored by several threads at once.
//
// What cannot be right, a key of another partition or twice in one record, a
// count that differs, is DataLoss that names the partition. ResourceExhausted
// when there is no memory; with a memory budget errors of the disk as ColdRows.
// After any error the table is worth nothing.
class TableRestore {
 public:
  using Partitions = std::vector<std::unique_ptr<Partition>>;

  // All outlive this; `tier` is null without a memory budget.
  TableRestore(const RowSpace& rows, const RowRules& rules,
               const Partitions& partitions, int partition_bits, Tier* tier)
      : rows_(rows),
        rules_(rules),
        partitions_(partitions),
        partition_bits_(partition_bits),
        tier_(tier),
        packing_(rows.layout()),
        progress_(partitions.size()) {}

  // A record of CutSink::Rows: puts its rows in, in place of those with the
  // same keys. With a memory budget rows beyond it go to disk.
  absl::Status Rows(PartitionIndex index, absl::Span<const std::byte> packed);
  // A record of CutSink::Erased. Keys without rows are left alone: they were
  // created and evicted between two cuts.
  absl::Status Erased(PartitionIndex index, absl::Span<const Key> keys);
  // Sets what is not rows. DataLoss too when the number of rows, or the digest
  // where it is known, is not the state's.
  absl::Status Finish(PartitionIndex index,
                      const v1::SparsePartitionState& state);

 private:
  // Guarded by the partition's lock.
  struct Progress {
    uint64_t digest = 0;
    uint64_t latest_version = 0;
  };

  absl::Status CheckIndex(PartitionIndex index) const;
  absl::Status CheckKeys(PartitionIndex index,
                         absl::Span<const Key> keys) const;
  absl::Status CheckRows(PartitionIndex index,
                         absl::Span<const std::byte> packed,
                         std::vector<Key>* keys) const;
  absl::Status CheckEachOnce(PartitionIndex index, std::vector<Key> keys) const;
  absl::Status MakeRoom(PartitionIndex index, absl::Span<const Key> keys,
                        Partition* partition)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(partition->lock());
  uint64_t DigestOf(const std::byte* row) const;
  absl::Status EraseSome(PartitionIndex index, absl::Span<const Key> keys);
  absl::Status RestoreSketch(PartitionIndex index, const std::string& bytes,
                             Partition* partition)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(partition->lock());

  const RowSpace& rows_;
  const RowRules& rules_;
  const Partitions& partitions_;
  const int partition_bits_;
  Tier* const tier_;
  const PackedRows packing_;
  std::vector<Progress> progress_;
};

}  // namespace oarlock::sparse_table

#endif  // OARLOCK_SPARSE_TABLE_CUT_TABLE_RESTORE_H_
