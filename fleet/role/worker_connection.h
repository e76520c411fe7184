// A worker's connection to the parameter servers of its job.

#ifndef OARLOCK_FLEET_ROLE_WORKER_CONNECTION_H_
#define OARLOCK_FLEET_ROLE_WORKER_CONNECTION_H_

#include <memory>
#include <string>

#include "absl/status/statusor.h"
#include "base/clock.h"
#include "client/grpc_job_client.h"
#include "client/grpc_parameter_client.h"
#include "client/server_connections.h"
#include "cluster/environment.h"
#include "cluster/security.h"
#include "proto/config/job_config.pb.h"

namespace oarlock {

// The flag's, else the environment's.
std::string JobIdOf(const v1::JobConfig& config,
                    const cluster::RoleAssignment& role);

cluster::SecurityOptions SecurityOf(const v1::JobConfig& config,
                                    const cluster::RoleAssignment& role);

// In the order in which they need each other.
struct WorkerConnection {
  std::unique_ptr<client::ServerConnections> servers;
  std::unique_ptr<client::GrpcJobClient> job;
  std::unique_ptr<client::GrpcParameterClient> parameters;
};

// Connects to all servers and registers as the role's worker. `description`:
// what the job trains, null: this worker does not say. The clocks outlive the
// connection.
absl::StatusOr<WorkerConnection> ConnectWorker(
    const v1::JobConfig& config, const cluster::RoleAssignment& role,
    const Clocks& clocks, const v1::JobDescription* description = nullptr);

}  // namespace oarlock

#endif  // OARLOCK_FLEET_ROLE_WORKER_CONNECTION_H_
