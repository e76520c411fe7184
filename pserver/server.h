// A server daemon as an object: data plane, control plane, and on server 0 the
// coordinator. Several of them run in one process without knowing each other.

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
#include "pserver/options/server_options.h"

namespace oarlock::pserver {

// Thread-safe.
class Server {
 public:
  // Calls that are under way may take this long when the server goes.
  static constexpr absl::Duration kCallGrace = absl::Seconds(2);

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
  int port() const;
  // "host:port" with that port.
  std::string endpoint() const;
  Generation generation() const;

  // Returns when there is nothing left to do; call Shutdown then. OK: the job
  // succeeded, was drained, or Shutdown was called. Aborted: the job failed,
  // and why. Anything else: the coordinator is gone or refuses this server.
  absl::Status Wait();

  // What it has done and holds; on server 0 also how the job stands.
  void CollectMetrics(MetricsSnapshot* snapshot) const;

  // Ends the server; a job that is not over ends with it, and its workers
  // learn why. New calls are refused, what waits is answered, calls under way
  // get `kCallGrace`. On the coordinator it takes up to `drain_grace` and
  // ControlLoop::kLinger longer. Idempotent; returns when all is done. Not to
  // be called from a signal handler.
  void Shutdown();
  // No worker is left that would have to learn that the job ends: a Shutdown
  // under way does not wait for any.
  void EndWithoutWorkers();

 private:
  class Impl;
  explicit Server(std::unique_ptr<Impl> impl);

  const std::unique_ptr<Impl> impl_;
};

// All that CollectMetrics may tell.
std::vector<const Metric*> ServerMetrics();

}  // namespace oarlock::pserver

#endif  // OARLOCK_PSERVER_SERVER_H_
