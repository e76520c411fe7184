// What differs between two configurations of a table, and which differences are
// allowed when a job continues from a checkpoint.

#ifndef OARLOCK_PSERVER_TABLE_TABLE_CHANGE_H_
#define OARLOCK_PSERVER_TABLE_TABLE_CHANGE_H_

#include <string>

#include "proto/v1/table.pb.h"

namespace oarlock::pserver {

// Whether training under `to` can continue with rows and blocks that were made
// under `from`: everything that decides what they hold is the same. These may
// differ: the numbers of the update rules, learning-rate schedules, mode,
// reduction and eviction.
bool CanGoOn(const v1::TableConfig& from, const v1::TableConfig& to);

// "sparse.dim: 11 -> 17, added: optimizer.l2: 0.5": every field that differs. A
// field that only one of them has is marked as added or deleted.
std::string DifferencesOf(const v1::TableConfig& from,
                          const v1::TableConfig& to);

}  // namespace oarlock::pserver

#endif  // OARLOCK_PSERVER_TABLE_TABLE_CHANGE_H_
