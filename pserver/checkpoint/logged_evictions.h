// Evictions of a server that keeps a log: each step is between two rounds of
// its table, on one side of every push and every cut, and in the log first. So
// a replay has the same rows.

#ifndef OARLOCK_PSERVER_CHECKPOINT_LOGGED_EVICTIONS_H_
#define OARLOCK_PSERVER_CHECKPOINT_LOGGED_EVICTIONS_H_

#include "pserver/checkpoint/cut_gate.h"
#include "pserver/checkpoint/server_log.h"
#include "pserver/table/eviction_loop.h"
#include "pserver/table/table_registry.h"

namespace oarlock::pserver {

// What is given outlives the result. `log` null: there is none, and any order
// will do.
EvictionLoop::DoStep LogEvictions(TableRegistry* registry, ServerLog* log,
                                  CutGate* gate);

}  // namespace oarlock::pserver

#endif  // OARLOCK_PSERVER_CHECKPOINT_LOGGED_EVICTIONS_H_
