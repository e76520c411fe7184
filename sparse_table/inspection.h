// Looking at a whole table: its rows one by one, its counts.

#ifndef OARLOCK_SPARSE_TABLE_INSPECTION_H_
#define OARLOCK_SPARSE_TABLE_INSPECTION_H_

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <vector>

#include "absl/status/status.h"
#include "base/types.h"
#include "sparse_table/partition.h"
#include "sparse_table/rows/row_space.h"
#include "sparse_table/sparse_table.h"
#include "sparse_table/tier.h"

namespace oarlock::sparse_table {

// The functions of SparseTable that have these names. Locks one partition at a
// time.
class Inspection {
 public:
  using Partitions = std::vector<std::unique_ptr<Partition>>;
  using RowView = SparseTable::RowView;

  // All outlive this; `tier` is null without a memory budget.
  Inspection(const RowSpace& rows, const Partitions& partitions,
             const Tier* tier)
      : rows_(rows), partitions_(partitions), tier_(tier) {}

  absl::Status ForEachRow(
      const std::function<void(PartitionIndex, const RowView&)>& visit) const;
  SparseTableStats Stats() const;
  std::vector<SparsePartitionStats> PartitionStats() const;

 private:
  RowView ViewOf(const std::byte* row, uint32_t latest_touch) const;

  const RowSpace& rows_;
  const Partitions& partitions_;
  const Tier* const tier_;
};

}  // namespace oarlock::sparse_table

#endif  // OARLOCK_SPARSE_TABLE_INSPECTION_H_
