// Cuts of a table: all its rows as they were at one moment, saved while pushes,
// pulls, evictions and demotions go on (docs/design/0009-checkpoints.md).
//
//   Freeze          every partition remembers the moment
//   SavePartition   for each of them, by as many threads as there are
//   Thaw            the cut is published, or given up

#ifndef OARLOCK_SPARSE_TABLE_CUT_TABLE_CUTS_H_
#define OARLOCK_SPARSE_TABLE_CUT_TABLE_CUTS_H_

#include <memory>
#include <vector>

#include "absl/status/statusor.h"
#include "base/types.h"
#include "sparse_table/cut/cut_sink.h"
#include "sparse_table/partition.h"
#include "sparse_table/rows/packed_rows.h"
#include "sparse_table/rows/row_space.h"
#include "sparse_table/tier.h"

namespace oarlock::sparse_table {

// One cut at a time: Freeze and Thaw are called in turns and while no partition
// is being saved; different partitions may be saved by several threads at once.
// Everything else may use the table all the time.
class TableCuts {
 public:
  using Partitions = std::vector<std::unique_ptr<Partition>>;

  // All outlive this; `tier` is null without a memory budget.
  TableCuts(const RowSpace& rows, const Partitions& partitions,
            const Tier* tier)
      : rows_(rows),
        partitions_(partitions),
        tier_(tier),
        packing_(rows.layout()) {}

  // Begins a cut, some microseconds a partition. No push that belongs before it
  // may be under way, nor one that belongs behind it. From the first call on
  // changes are tracked, and a partition whose changes are not known (this is
  // the first call, the last cut failed, there were more than it has rows) is
  // saved as a whole whatever `kind` says.
  void Freeze(SaveKind kind);

  // Hands the rows of `partition` as of the freeze to `sink`, those that the
  // cut's kind names. The partition's lock is held, shared, for one record at a
  // time. Memory for rows that change before they are saved, at most as much as
  // they take, is free again afterwards. Errors of the sink and, with a memory
  // budget, of the disk as ColdRows; DataLoss when rows are missing. What the
  // sink has got is worth nothing then, and the cut can only be given up.
  // REQUIRES: there is a cut, which has not saved `partition`.
  absl::StatusOr<SavedPartition> SavePartition(PartitionIndex partition,
                                               CutSink& sink);

  // Ends the cut. `saved`: what was saved can be relied on, so the next cut may
  // save what has changed since; false: it will save everything. A partition
  // that was not saved counts as such.
  void Thaw(bool saved);

  // Size of a packed row.
  size_t row_bytes() const { return packing_.row_bytes(); }

 private:
  const RowSpace& rows_;
  const Partitions& partitions_;
  const Tier* const tier_;
  const PackedRows packing_;
  // Used by Freeze and Thaw alone.
  bool frozen_ = false;
};

}  // namespace oarlock::sparse_table

#endif  // OARLOCK_SPARSE_TABLE_CUT_TABLE_CUTS_H_
