// The servers of a job and any number of its workers in one process: real
// servers, real sockets on loopback, free ports.

#ifndef OARLOCK_TESTS_INTEGRATION_MINI_CLUSTER_H_
#define OARLOCK_TESTS_INTEGRATION_MINI_CLUSTER_H_

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "base/clock.h"
#include "client/grpc_job_client.h"
#include "client/grpc_parameter_client.h"
#include "client/server_connections.h"
#include "pserver/options/server_options.h"
#include "pserver/server.h"

namespace oarlock {

struct MiniClusterOptions {
  uint32_t num_servers = 1;
  uint32_t num_workers = 1;
  uint32_t num_partitions = 64;
  std::string job_id = "mini";
  absl::Duration lease = absl::Seconds(10);
  absl::Duration restart_grace = absl::Seconds(10);
  // Of the clients.
  absl::Duration connect_timeout = absl::Seconds(20);
  absl::Duration rpc_timeout = absl::Seconds(20);
  bool accept_loss = false;
  // Leases go by server_clocks.wall. The clocks outlive the cluster and its
  // workers.
  Clocks server_clocks = {};
  Clocks client_clocks = {};
  // Changes the options of a server that starts; null: nothing.
  std::function<void(pserver::ServerOptions* server)> adjust = nullptr;
};

// One thread at a time.
class MiniCluster {
 public:
  // Reserves ports and starts the servers; a port that another process took in
  // between is given up for new ones, kMaxStartAttempts times.
  static absl::StatusOr<std::unique_ptr<MiniCluster>> Start(
      const MiniClusterOptions& options);
  // The same without starting a server: StartServer does it.
  static std::unique_ptr<MiniCluster> Reserve(
      const MiniClusterOptions& options);
  // Shuts the servers down that still run, the coordinator last.
  ~MiniCluster();

  absl::Status StartServer(uint32_t index);
  void StopServer(uint32_t index) { servers_[index].reset(); }
  pserver::Server& server(uint32_t index) { return *servers_[index]; }

  const std::vector<std::string>& endpoints() const { return endpoints_; }
  // What a client of this job is told.
  client::ConnectionOptions Connection() const;

  static constexpr int kMaxStartAttempts = 5;

 private:
  explicit MiniCluster(const MiniClusterOptions& options);

  const MiniClusterOptions options_;
  std::vector<std::string> endpoints_;
  std::vector<std::unique_ptr<pserver::Server>> servers_;
};

// What a worker process holds. Destroying it without job().Finish() is a
// worker that vanishes: its lease runs out.
class MiniWorker {
 public:
  // Connects and takes the place `index` of the job.
  static absl::StatusOr<std::unique_ptr<MiniWorker>> Join(
      const MiniCluster& cluster, uint32_t index);

  const client::ServerConnections& connections() const { return *connections_; }
  client::GrpcJobClient& job() { return *job_; }
  client::GrpcParameterClient& parameters() { return *parameters_; }

 private:
  std::unique_ptr<client::ServerConnections> connections_;
  std::unique_ptr<client::GrpcJobClient> job_;
  std::unique_ptr<client::GrpcParameterClient> parameters_;
};

}  // namespace oarlock

#endif  // OARLOCK_TESTS_INTEGRATION_MINI_CLUSTER_H_
