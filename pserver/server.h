// A server daemon as an object: data plane, control plane, and on server 0 the
// coordinator. Several of them run in one process without knowing each other.
//
// In a job that stays, the servers go back to the newest cut in place when a
// run of workers leaves something that nobody can complete: each ends one life
// (server_life.h) and begins the next one on the same port, server 0 last
// (docs/design/0031-going-back.md).

#ifndef OARLOCK_PSERVER_SERVER_H_
#define OARLOCK_PSERVER_SERVER_H_

#include <memory>
#include <string>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/synchronization/mutex.h"
#include "base/metrics.h"
#include "base/types.h"
#include "pserver/checkpoint/checkpoint_hook.h"
#include "pserver/options/server_options.h"
#include "pserver/server_life.h"

namespace oarlock::pserver {

// Thread-safe.
class Server {
 public:
  // Calls that are under way may take this long when the server goes.
  static constexpr absl::Duration kCallGrace = ServerLife::kCallGrace;

  // Listens and serves. InvalidArgument for illegal options; AlreadyExists
  // when the port is in use; FailedPrecondition when the address is not this
  // machine's, or lies beyond loopback without TLS, token or `insecure`;
  // NotFound for a key or token file that is missing.
  static absl::StatusOr<std::unique_ptr<Server>> Start(
      const ServerOptions& options);
  // Shuts down.
  ~Server();

  Server(const Server&) = delete;
  Server& operator=(const Server&) = delete;

  // The port that it listens on.
  int port() const { return port_; }
  // "host:port" with that port.
  const std::string& endpoint() const { return endpoint_; }
  // Of its present life.
  Generation generation() const ABSL_LOCKS_EXCLUDED(mutex_);

  // Begins one life after another; for one thread. Returns when there is
  // nothing left to do; call Shutdown then. OK: the job succeeded, was drained,
  // or Shutdown was called. Aborted: the job failed, and why. Anything else:
  // the coordinator is gone or refuses this server. A command of
  // --on_checkpoint that runs when the job is over is waited for, at most its
  // timeout; when the job failed it is killed.
  absl::Status Wait();

  // What it has done and holds; on server 0 also how the job stands.
  void CollectMetrics(MetricsSnapshot* snapshot) const
      ABSL_LOCKS_EXCLUDED(mutex_);

  // Ends the server; a job that is not over ends with it, and its workers
  // learn why. New calls are refused, what waits is answered, calls under way
  // get `kCallGrace`. On the coordinator it takes up to `drain_grace` and
  // ControlLoop::kLinger longer. Idempotent; returns when all is done. Not to
  // be called from a signal handler.
  void Shutdown() ABSL_LOCKS_EXCLUDED(mutex_);
  // No worker is left that would have to learn that the job ends: a Shutdown
  // under way does not wait for any.
  void EndWithoutWorkers() ABSL_LOCKS_EXCLUDED(mutex_);

 private:
  Server(const ServerOptions& options, std::unique_ptr<CheckpointHook> hook,
         std::unique_ptr<ServerLife> life);

  bool shut_down() const ABSL_LOCKS_EXCLUDED(mutex_) {
    absl::ReaderMutexLock lock(&mutex_);
    return shut_down_;
  }
  // For the thread that waits, which alone changes it.
  ServerLife* life() const ABSL_NO_THREAD_SAFETY_ANALYSIS {
    return life_.get();
  }
  // The present one is gone when the next one begins: two at a time would need
  // twice the memory, and share its folders.
  absl::Status WaitForLives();
  absl::Status BeginNextLife(const RollBackOptions& roll_back)
      ABSL_LOCKS_EXCLUDED(mutex_);

  const ServerOptions options_;
  const int port_;
  const std::string endpoint_;
  // Null except on server 0 with a command. Outlives all lives.
  const std::unique_ptr<CheckpointHook> hook_;
  // Whoever uses the present life from another thread reads.
  mutable absl::Mutex mutex_;
  // Null between two lives.
  std::unique_ptr<ServerLife> life_ ABSL_GUARDED_BY(mutex_);
  bool shut_down_ ABSL_GUARDED_BY(mutex_) = false;
};

// All that CollectMetrics may tell.
std::vector<const Metric*> ServerMetrics();

}  // namespace oarlock::pserver

#endif  // OARLOCK_PSERVER_SERVER_H_
