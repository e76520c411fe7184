// Where tests kill a process that moves rows between tiers
// (base/fault_point.h).

#ifndef OARLOCK_SPARSE_TABLE_FAULT_POINTS_H_
#define OARLOCK_SPARSE_TABLE_FAULT_POINTS_H_

#include "base/fault_point.h"

namespace oarlock::sparse_table {

inline constexpr FaultPointInfo kSparseTableFaultPoints[] = {
    {"tier.demote.before_write", "rows are to leave memory, not on disk yet"},
    {"tier.demote.after_write", "they are on disk and in memory"},
    {"tier.promote.before_insert", "rows are read from disk, not in memory"},
};

inline void FaultPoint(FaultPointOf<kSparseTableFaultPoints> point) {
  ReachFaultPoint(point.info());
}

}  // namespace oarlock::sparse_table

#endif  // OARLOCK_SPARSE_TABLE_FAULT_POINTS_H_
