// The one background thread of a server's control plane: it reports to the
// coordinator, applies what the coordinator says about workers and the logical
// time, tells what dead workers have pushed, and notices the end of the job. On
// server 0 it also lets the coordinator's time go by.

#ifndef OARLOCK_PSERVER_FENCING_CONTROL_LOOP_H_
#define OARLOCK_PSERVER_FENCING_CONTROL_LOOP_H_

#include <grpcpp/channel.h>

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <thread>
#include <utility>

#include "absl/base/thread_annotations.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/synchronization/mutex.h"
#include "absl/time/time.h"
#include "base/clock.h"
#include "base/types.h"
#include "cluster/partition_map.h"
#include "coordinator/coordinator.h"
#include "proto/v1/coordinator_service.grpc.pb.h"
#include "proto/v1/server_admin_service.grpc.pb.h"
#include "pserver/aggregator/logical_clock.h"
#include "pserver/fencing/coordinator_term.h"
#include "pserver/fencing/ledger_reporter.h"
#include "pserver/fencing/round_membership.h"

namespace oarlock::pserver {

struct ControlLoopOptions {
  ServerIndex server;
  Generation server_generation;
  std::string job_id;
  uint32_t num_workers = 1;
  std::string coordinator_endpoint;
  std::string token;
  // An outage of the coordinator that is worth a line in the log.
  absl::Duration lease;
  // How long it may take to come up, and to be silent once it was there.
  absl::Duration start_timeout;
  absl::Duration coordinator_timeout;
  // See ServerOptions.
  absl::Duration deadline_interval;
  absl::Duration heartbeat_interval;
  absl::Duration heartbeat_call_timeout;
  std::string checkpoint_dir;
};

// Thread-safe.
class ControlLoop {
 public:
  // Between two turns that were asked for, at least.
  static constexpr absl::Duration kWakeInterval = absl::Milliseconds(10);
  // Between two heartbeats at most, while a ledger is wanted and not told yet:
  // a worker's successor waits for it.
  static constexpr absl::Duration kLedgerInterval = absl::Milliseconds(20);
  // The last heartbeat may take this long.
  static constexpr absl::Duration kLastHeartbeatTimeout =
      absl::Milliseconds(500);
  static constexpr int kLastHeartbeatAttempts = 3;
  // The coordinator stays this long for servers and workers of which it does
  // not know that they know that the job is over.
  static constexpr absl::Duration kLinger = absl::Seconds(5);

  // The newest cut that was opened, the newest that is over, and whether none
  // can be opened now.
  using CutObserver =
      std::function<void(uint64_t opened, uint64_t finished, bool cuts_wait)>;

  // On server 0 `coordinator` is set, elsewhere `channel` leads to it. The
  // loop's thread calls `cut_observer` after each heartbeat and
  // `checkpoint_is_due` before it. `clock` is monotonic. What is given must
  // outlive this.
  ControlLoop(const ControlLoopOptions& options,
              const cluster::PartitionMap& map,
              coordinator::Coordinator* coordinator,
              std::shared_ptr<grpc::Channel> channel, CoordinatorTerm* term,
              RoundMembership* round_membership, LogicalClock* logical_clock,
              LedgerReporter* ledgers, CutObserver cut_observer,
              std::function<bool()> checkpoint_is_due, const Clock& clock);
  ~ControlLoop();

  void Start();
  // Has the next turn come at once, unless one was asked for a moment ago.
  void Wake() ABSL_LOCKS_EXCLUDED(mutex_);
  // Ends the loop: the server goes back to a cut, and the job goes on.
  void EndForRollBack() { End(absl::OkStatus()); }
  // Returns when the loop has ended. OK: the job succeeded or was drained, or
  // Stop was called. Aborted: the job failed, and why. Anything else: the
  // coordinator is gone or refuses this server.
  absl::Status Wait();
  // The same with a limit; false when it is over.
  bool WaitFor(absl::Duration limit);
  // Ends the loop; a server that is not the coordinator tells it that it goes,
  // if the job is not over. Idempotent.
  void Stop();

 private:
  void Run();
  // One turn each; true when the loop is to end.
  bool CoordinatorTurn();
  bool FollowerTurn();
  // The first call to the coordinator: same job, same shape?
  absl::Status Connect();
  v1::ServerHeartbeatRequest MakeHeartbeat(bool leaving);
  // The last heartbeat; the coordinator may be gone before.
  void SendLastHeartbeat();
  absl::StatusOr<v1::ServerHeartbeatResponse> SendHeartbeat(
      bool leaving, absl::Duration timeout);
  // How much of the time since the last call this process can have been waiting
  // for the coordinator. The rest of it, it stood still.
  absl::Duration WaitedSinceLastTurn();
  // A call failed: true when the loop is to end.
  bool RecordFailure(const absl::Status& status);
  // FailedPrecondition: this server has another generation than it may have.
  absl::Status Apply(const v1::ServerHeartbeatResponse& response);
  void End(absl::Status outcome);
  // Waits for the interval, or for Wake; true when Stop was called.
  bool Pause(absl::Duration interval);

  const ControlLoopOptions options_;
  const cluster::PartitionMap map_;
  coordinator::Coordinator* const coordinator_;
  // Both null on server 0.
  const std::unique_ptr<v1::ServerAdminService::Stub> admin_stub_;
  const std::unique_ptr<v1::CoordinatorService::Stub> coordinator_stub_;
  CoordinatorTerm* const term_;
  // Names this process in heartbeats.
  const uint64_t registration_id_;
  RoundMembership* const round_membership_;
  LogicalClock* const logical_clock_;
  LedgerReporter* const ledgers_;
  const CutObserver cut_observer_;
  const std::function<bool()> checkpoint_is_due_;
  const Clock& clock_;

  // Of the loop's thread alone.
  bool connected_ = false;
  // When the last call ended, and how long calls have failed since one did not,
  // less the time in which this process itself stood still.
  absl::Time last_turn_;
  absl::Duration outage_;
  bool outage_logged_ = false;
  uint64_t workers_version_ = 0;
  absl::Time over_since_ = absl::InfiniteFuture();

  absl::Mutex mutex_;
  bool stop_ ABSL_GUARDED_BY(mutex_) = false;
  bool wake_ ABSL_GUARDED_BY(mutex_) = false;
  absl::Time last_wake_ ABSL_GUARDED_BY(mutex_) = absl::InfinitePast();
  bool ended_ ABSL_GUARDED_BY(mutex_) = false;
  absl::Status outcome_ ABSL_GUARDED_BY(mutex_);
  std::thread thread_;
};

}  // namespace oarlock::pserver

#endif  // OARLOCK_PSERVER_FENCING_CONTROL_LOOP_H_
