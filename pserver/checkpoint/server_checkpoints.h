// A server's part in checkpoints: it continues from one when it starts, takes
// part in making them and, on server 0, makes them.

#ifndef OARLOCK_PSERVER_CHECKPOINT_SERVER_CHECKPOINTS_H_
#define OARLOCK_PSERVER_CHECKPOINT_SERVER_CHECKPOINTS_H_

#include <cstdint>
#include <memory>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "base/clock.h"
#include "cluster/partition_map.h"
#include "coordinator/coordinator.h"
#include "coordinator/log/coordinator_log.h"
#include "coordinator/log/log_compatibility.h"
#include "pserver/checkpoint/checkpoint_loop.h"
#include "pserver/checkpoint/cut_gate.h"
#include "pserver/checkpoint/server_cut.h"
#include "pserver/checkpoint/server_log.h"
#include "pserver/fencing/push_ledger.h"
#include "pserver/options/server_options.h"
#include "pserver/table/table_registry.h"
#include "storage/checkpoint_dir.h"

namespace oarlock::pserver {

// Thread-safe after Start.
class ServerCheckpoints {
 public:
  // Fills the tables, and on server 0 the coordinator (else null), as
  // `options.resume`, `options.replay_log`, `options.load` and `decision` (of
  // DecideReplayOf) say. Then makes what takes part in cuts. What is given
  // outlives this; the coordinator must not be called any more once this ends.
  // FailedPrecondition when the folder has a checkpoint and resume is not set;
  // DataLoss when what is to be read is missing or damaged; NotFound when there
  // is no checkpoint to load. REQUIRES: options.checkpoint_dir is set.
  static absl::StatusOr<std::unique_ptr<ServerCheckpoints>> Create(
      const ServerOptions& options, const coordinator::ReplayDecision& decision,
      const std::string& token, const cluster::PartitionMap* map,
      TableRegistry* registry, PushLedger* ledger,
      coordinator::Coordinator* coordinator, CutGate* gate);

  // Server 0 begins to make checkpoints. `endpoint`: where this server listens.
  absl::Status Start(const std::string& endpoint);
  const ServerCut& cuts() const { return *cuts_; }
  ServerCut* mutable_cuts() { return cuts_.get(); }
  // Null without a log.
  ServerLog* log() const { return log_.get(); }
  // Whether everything that its predecessors acknowledged is here. Where no log
  // was replayed, only their clients can say whether there was more.
  bool lossless() const { return replayed_ && !log_->may_lack_its_end(); }
  // See ConnectResponse.
  bool log_may_lack_its_end() const {
    return replayed_ && log_->may_lack_its_end();
  }
  // Of server 0 (storage/folder_mark.h); else 0.
  uint64_t mark() const { return mark_; }
  // Null except on server 0 after Start.
  CheckpointLoop* loop() const { return loop_.get(); }
  // Ends what is running. Idempotent.
  void Stop();

 private:
  ServerCheckpoints(const ServerOptions& options, const std::string& token,
                    const cluster::PartitionMap* map, TableRegistry* registry,
                    coordinator::Coordinator* coordinator)
      : options_(options),
        token_(token),
        map_(map),
        registry_(registry),
        coordinator_(coordinator) {}

  // Forgets the logs if they are not replayed, and creates server 0's file RUN.
  absl::Status BeginLogs(const coordinator::ReplayDecision& decision);
  absl::Status OpenLog(const coordinator::ReplayDecision& decision,
                       PushLedger* ledger, CutGate* gate);
  // The coordinator continues from its log, or else from what was resumed.
  absl::Status BeginCoordinator(const coordinator::ReplayDecision& decision,
                                const storage::CheckpointDir& dir,
                                const v1::CheckpointManifest* resumed);

  const ServerOptions options_;
  const std::string token_;
  const cluster::PartitionMap* const map_;
  TableRegistry* const registry_;
  coordinator::Coordinator* const coordinator_;
  // Null except on server 0 with a log.
  std::unique_ptr<coordinator::RunFile> run_file_;
  std::unique_ptr<ServerLog> log_;
  // Null except on server 0 with a log.
  std::unique_ptr<coordinator::CoordinatorLog> coordinator_log_;
  bool replayed_ = false;
  uint64_t mark_ = 0;
  std::unique_ptr<ServerCut> cuts_;
  std::unique_ptr<CheckpointLoop> loop_;
};

// Decides what this server does with the logs of the run before; the decision
// is the same on all servers of the job. Errors of the disk.
absl::StatusOr<coordinator::ReplayDecision> DecideReplayOf(
    const ServerOptions& options);

// Fills a job's tables with the parameters of a checkpoint: `path` is its
// folder, or one with CURRENT. Logical time goes on from there; `coordinator`,
// if this server has it, learns what was trained. `clock` is monotonic. Errors
// as above.
absl::Status LoadParameters(const std::string& path, ServerIndex server,
                            const cluster::PartitionMap& map,
                            const Clock& clock, TableRegistry* registry,
                            coordinator::Coordinator* coordinator);

}  // namespace oarlock::pserver

#endif  // OARLOCK_PSERVER_CHECKPOINT_SERVER_CHECKPOINTS_H_
