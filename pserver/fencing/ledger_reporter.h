// A server's part in a worker's death: it tells the coordinator the ledgers
// that it asks for, and forgets incarnations when they are accounted for.

#ifndef OARLOCK_PSERVER_FENCING_LEDGER_REPORTER_H_
#define OARLOCK_PSERVER_FENCING_LEDGER_REPORTER_H_

#include <vector>

#include "absl/container/flat_hash_map.h"
#include "base/types.h"
#include "proto/v1/coordinator_servers.pb.h"
#include "pserver/fencing/push_ledger.h"
#include "pserver/table/table_registry.h"

namespace oarlock::pserver {

// Not thread-safe: of the thread that sends heartbeats.
class LedgerReporter {
 public:
  // Both outlive this.
  LedgerReporter(PushLedger* ledger, TableRegistry* registry)
      : ledger_(ledger), registry_(registry) {}

  // Adds those of the wanted ledgers that are complete here.
  void Fill(v1::ServerHeartbeatRequest* request);

  // What was answered to the request that was filled last. Before the server
  // acts on the rest of the response: a restarted server must not let pushes in
  // before it knows what is forgotten.
  void Apply(const v1::ServerHeartbeatResponse& response);

  // Something is wanted that the coordinator has not been told yet.
  bool due() const;

 private:
  struct Wanted {
    WorkerIndex worker;
    Generation generation;
    // It was in the last request; in one that was answered.
    bool sent = false;
    bool reported = false;
  };

  PushLedger* const ledger_;
  TableRegistry* const registry_;
  // As of the last response.
  std::vector<Wanted> wanted_;
  // What the tables have forgotten, up to which generation.
  absl::flat_hash_map<WorkerIndex, Generation> forgotten_;
};

}  // namespace oarlock::pserver

#endif  // OARLOCK_PSERVER_FENCING_LEDGER_REPORTER_H_
