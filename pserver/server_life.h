// What a server is from its start until it ends or goes back to a cut: its
// state, its services, its loops and its port.

#ifndef OARLOCK_PSERVER_SERVER_LIFE_H_
#define OARLOCK_PSERVER_SERVER_LIFE_H_

#include <grpcpp/grpcpp.h>

#include <atomic>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/synchronization/mutex.h"
#include "absl/time/time.h"
#include "base/metrics.h"
#include "base/types.h"
#include "cluster/listener.h"
#include "proto/v1/checkpoint.pb.h"
#include "pserver/checkpoint/checkpoint_service.h"
#include "pserver/fencing/control_loop.h"
#include "pserver/options/server_options.h"
#include "pserver/rpc/call_queues.h"
#include "pserver/server_state.h"
#include "pserver/service/coordinator_service.h"
#include "pserver/service/health_service.h"
#include "pserver/service/parameter_service.h"
#include "pserver/service/reflection_service.h"
#include "pserver/service/server_admin_service.h"
#include "pserver/service/unknown_calls.h"
#include "pserver/table/eviction_loop.h"

namespace oarlock::pserver {

// Thread-safe.
class ServerLife {
 public:
  // Calls that are under way may take this long when it ends.
  static constexpr absl::Duration kCallGrace = absl::Seconds(2);

  // Listens and serves. `sockets` listen already, where they are not empty.
  // Errors as Server::Start.
  static absl::StatusOr<std::unique_ptr<ServerLife>> Begin(
      const ServerOptions& options, std::vector<int> sockets);
  // Shuts down.
  ~ServerLife() { Shutdown(); }

  ServerLife(const ServerLife&) = delete;
  ServerLife& operator=(const ServerLife&) = delete;

  int port() const { return listener_->port(); }
  std::string endpoint() const;
  Generation generation() const { return state_->generation; }

  // As Server::Wait.
  absl::Status Wait();
  // Once Wait has returned: with what the next life begins, if there is one. On
  // server 0, where nobody orders it, without a folder.
  std::optional<RollBackOptions> NextLife() const
      ABSL_LOCKS_EXCLUDED(roll_back_mutex_);
  // Sockets of the port for the next life. REQUIRES: Shutdown was not called.
  absl::StatusOr<std::vector<int>> DuplicateSockets() const {
    return listener_->DuplicateSockets();
  }

  void CollectMetrics(MetricsSnapshot* snapshot) const;

  // As Server::Shutdown. The job goes on if there is a next life.
  void Shutdown() ABSL_LOCKS_EXCLUDED(shutdown_mutex_);
  void EndWithoutWorkers();

 private:
  ServerLife(const ServerOptions& options, std::unique_ptr<ServerState> state,
             const std::string& token,
             std::shared_ptr<grpc::Channel> coordinator_channel);

  absl::Status Listen(std::vector<int> sockets,
                      std::shared_ptr<grpc::ServerCredentials> credentials);
  absl::Status Serve();
  // The coordinator orders it.
  absl::StatusOr<v1::RollBackResponse> RollBack(
      const v1::RollBackRequest& request) ABSL_LOCKS_EXCLUDED(roll_back_mutex_);

  const ServerOptions options_;
  const absl::Time start_;
  const std::unique_ptr<ServerState> state_;
  EvictionLoop eviction_loop_;
  ServerAdminService server_admin_service_;
  // Null but on server 0.
  const std::unique_ptr<CoordinatorService> coordinator_service_;
  ParameterService parameter_service_;
  HealthService health_service_;
  ReflectionService reflection_service_;
  UnknownCalls unknown_calls_;
  // Null in a job without checkpoints that does not stay.
  const std::unique_ptr<CheckpointService> checkpoint_service_;
  // Its threads serve all of them.
  CallQueues queues_;
  ControlLoop control_loop_;

  // Set once while it starts.
  std::unique_ptr<cluster::Listener> listener_;
  std::unique_ptr<grpc::Server> grpc_server_;

  std::atomic<bool> asked_to_stop_{false};
  mutable absl::Mutex roll_back_mutex_;
  std::optional<v1::RollBackRequest> roll_back_
      ABSL_GUARDED_BY(roll_back_mutex_);
  absl::Mutex shutdown_mutex_;
  bool shut_down_ ABSL_GUARDED_BY(shutdown_mutex_) = false;
};

// All that ServerLife::CollectMetrics may tell.
std::vector<const Metric*> MetricsOfLife();

}  // namespace oarlock::pserver

#endif  // OARLOCK_PSERVER_SERVER_LIFE_H_
