// What a server holds and does without its services: tables, the ledger of
// pushes, fences, cuts, checkpoints, and on server 0 the coordinator.

#ifndef OARLOCK_PSERVER_SERVER_STATE_H_
#define OARLOCK_PSERVER_SERVER_STATE_H_

#include <memory>
#include <string>

#include "absl/status/statusor.h"
#include "base/types.h"
#include "cluster/partition_map.h"
#include "coordinator/coordinator.h"
#include "coordinator/log/log_compatibility.h"
#include "pserver/aggregator/hold_budget.h"
#include "pserver/checkpoint/cut_gate.h"
#include "pserver/checkpoint/server_checkpoints.h"
#include "pserver/checkpoint/server_log.h"
#include "pserver/fencing/coordinator_term.h"
#include "pserver/fencing/ledger_reporter.h"
#include "pserver/fencing/push_ledger.h"
#include "pserver/fencing/round_membership.h"
#include "pserver/fencing/worker_fences.h"
#include "pserver/options/server_options.h"
#include "pserver/table/table_registry.h"

namespace oarlock::pserver {

// The members are thread-safe.
struct ServerState {
  // Continues from a checkpoint or logs, or begins with the parameters of a
  // checkpoint, as the options say. `decision`: of DecideReplayOf. `token`: of
  // the job. Errors as ServerCheckpoints::Create and LoadParameters.
  static absl::StatusOr<std::unique_ptr<ServerState>> Create(
      const ServerOptions& options, const coordinator::ReplayDecision& decision,
      const std::string& token);

  ServerState(const ServerState&) = delete;
  ServerState& operator=(const ServerState&) = delete;

  // Null without a log.
  ServerLog* log() const {
    return checkpoints == nullptr ? nullptr : checkpoints->log();
  }

  const Generation generation;
  const cluster::PartitionMap map;
  CoordinatorTerm term;
  WorkerFences fences;
  // These two outlive all that may hold a push.
  HoldBudget hold_budget;
  PushLedger push_ledger;
  TableRegistry registry;
  RoundMembership round_membership;
  LedgerReporter ledger_reporter;
  // Null but on server 0.
  const std::unique_ptr<coordinator::Coordinator> coordinator;
  CutGate cut_gate;
  // Null without checkpoints.
  std::unique_ptr<ServerCheckpoints> checkpoints;

 private:
  ServerState(const ServerOptions& options,
              const coordinator::ReplayDecision& decision,
              Generation generation);
};

}  // namespace oarlock::pserver

#endif  // OARLOCK_PSERVER_SERVER_STATE_H_
