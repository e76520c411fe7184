// A server's part in a worker's death: it sends the coordinator the ledgers
// that the coordinator requests, and forgets incarnations when the coordinator
// has forgotten them.

#ifndef OARLOCK_PSERVER_FENCING_LEDGER_REPORTER_H_
#define OARLOCK_PSERVER_FENCING_LEDGER_REPORTER_H_

#include <vector>

#include "absl/container/flat_hash_map.h"
#include "base/types.h"
#include "proto/v1/coordinator_servers.pb.h"
#include "pserver/fencing/push_ledger.h"
#include "pserver/fencing/round_membership.h"
#include "pserver/table/table_registry.h"

namespace oarlock::pserver {

// Not thread-safe: used by the thread that sends heartbeats.
class LedgerReporter {
 public:
  // All outlive this.
  LedgerReporter(PushLedger* ledger, TableRegistry* registry,
                 const RoundMembership* round_membership)
      : ledger_(ledger),
        registry_(registry),
        round_membership_(round_membership) {}

  // Adds those of the requested ledgers that are complete here.
  void Fill(v1::ServerHeartbeatRequest* request);

  // Takes the response to the request that was filled last. Call it before the
  // server acts on the rest of the response: a restarted server must not let
  // pushes in before it has forgotten what is forgotten.
  void Apply(const v1::ServerHeartbeatResponse& response);

  // Whether a requested ledger has not reached the coordinator yet.
  bool due() const;

 private:
  struct Wanted {
    WorkerIndex worker;
    Generation generation;
    // `sent`: it was in the last request. `reported`: it was in one that was
    // answered.
    bool sent = false;
    bool reported = false;
  };

  PushLedger* const ledger_;
  TableRegistry* const registry_;
  const RoundMembership* const round_membership_;
  // As of the last response.
  std::vector<Wanted> wanted_;
  // By worker, the generation up to which the tables have forgotten pushes.
  absl::flat_hash_map<WorkerIndex, Generation> forgotten_;
};

}  // namespace oarlock::pserver

#endif  // OARLOCK_PSERVER_FENCING_LEDGER_REPORTER_H_
