#include "fleet/role/worker_connection.h"

#include <utility>

#include "absl/time/time.h"
#include "base/status_macros.h"
#include "fleet/role/job_description.h"
#include "wire/value_format.h"

namespace oarlock {

std::string JobIdOf(const v1::JobConfig& config,
                    const cluster::RoleAssignment& role) {
  return config.job_id().empty() ? role.job_id : config.job_id();
}

cluster::SecurityOptions SecurityOf(const v1::JobConfig& config,
                                    const cluster::RoleAssignment& role) {
  cluster::SecurityOptions security;
  security.insecure = config.insecure();
  security.tls_cert_file = config.tls_cert_file();
  security.tls_key_file = config.tls_key_file();
  security.tls_ca_file = config.tls_ca_file();
  security.token_file = config.token_file();
  return cluster::FirstGiven(std::move(security), role.security);
}

absl::StatusOr<WorkerConnection> ConnectWorker(
    const v1::JobConfig& config, const cluster::RoleAssignment& role,
    const Clocks& clocks, const v1::JobDescription* description) {
  client::ValueFormats formats;
  OARLOCK_ASSIGN_OR_RETURN(formats.pull,
                           wire::ParseValueFormat(config.pull_format()));
  OARLOCK_ASSIGN_OR_RETURN(formats.push,
                           wire::ParseValueFormat(config.push_format()));
  client::ConnectionOptions options;
  options.endpoints = role.server_endpoints;
  options.job_id = JobIdOf(config, role);
  options.client_name = cluster::RoleName(role);
  options.connect_timeout = absl::Seconds(config.connect_timeout_s());
  options.rpc_timeout = absl::Seconds(config.rpc_timeout_s());
  options.accept_loss = config.recovery() == "accept_loss";
  options.security = SecurityOf(config, role);
  options.clocks = clocks;
  WorkerConnection connection;
  OARLOCK_ASSIGN_OR_RETURN(connection.servers,
                           client::ServerConnections::Connect(options));
  const WorkerIndex worker(role.worker_index);
  v1::RegisterWorkerRequest request;
  request.set_worker_index(role.worker_index);
  request.set_min_workers(role.num_workers);
  request.set_max_workers(role.num_workers);
  *request.mutable_settings() = SharedSettings(config).flags();
  if (description != nullptr) *request.mutable_description() = *description;
  // A job that stays may be somebody else's at this time.
  request.set_only_if_free(connection.servers->stays() && role.restarts == 0);
  OARLOCK_ASSIGN_OR_RETURN(connection.job,
                           client::GrpcJobClient::RegisterForEpochs(
                               connection.servers.get(), std::move(request)));
  connection.parameters = std::make_unique<client::GrpcParameterClient>(
      connection.servers.get(), worker, connection.job->generation(), formats);
  connection.parameters->SetRun(connection.job->registration().run());
  return connection;
}

}  // namespace oarlock
