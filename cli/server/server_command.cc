#include "cli/server/server_command.h"

#include <cstdio>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "base/status_macros.h"
#include "cluster/environment.h"
#include "flags/command_line.h"
#include "fleet/fleet.h"
#include "proto/config/job_config.pb.h"
#include "proto/config/launch_config.pb.h"
#include "proto/config/server_config.pb.h"

namespace oarlock::cli {
namespace {

flags::CommandSyntax Syntax() {
  return {
      .name = "oarlock server",
      .description =
          "Serves as one server of a job until the job is over. What the flags "
          "do not say is\ntaken from the environment; models and data are the "
          "workers' alone.",
      .examples =
          "  # the only server of a job of one worker\n"
          "  oarlock server --pserver_endpoints 127.0.0.1:6174 "
          "--current_endpoint 127.0.0.1:6174 --trainers 1\n"
          "  # its worker\n"
          "  oarlock train --role TRAINER --pserver_endpoints 127.0.0.1:6174 "
          "--trainers 1 --train_files 'data/part-*'\n"
          "  # the first of two servers on two machines\n"
          "  oarlock server --pserver_endpoints 10.0.0.1:6174,10.0.0.2:6174 "
          "--current_endpoint 10.0.0.1:6174 --trainers 4 "
          "--tls_cert_file cert.pem --tls_key_file key.pem "
          "--tls_ca_file ca.pem --token_file token\n",
  };
}

std::vector<flags::FlagSource> Sources(v1::RoleConfig* role,
                                       v1::ServerConfig* server,
                                       v1::JobConfig* config) {
  return {{role, {"pserver_endpoints", "current_endpoint", "trainers"}},
          {server},
          {config, ServerFlags()}};
}

absl::Status Serve(const v1::JobConfig& config,
                   const cluster::RoleAssignment& role, const Clocks& clocks) {
  OARLOCK_ASSIGN_OR_RETURN(const std::unique_ptr<Fleet> fleet,
                           Fleet::Init(config, role, clocks));
  return RunRole(*fleet, /*summary=*/nullptr);
}

}  // namespace

const std::vector<std::string>& ServerFlags() {
  static const auto* const names =
      new std::vector<std::string>{"job_id",
                                   "num_partitions",
                                   "lease_s",
                                   "server_threads",
                                   "max_held_mb",
                                   "metrics_port",
                                   "tick_s",
                                   "tick_per_epoch",
                                   "tier_dir",
                                   "checkpoint_dir",
                                   "checkpoint_interval_s",
                                   "checkpoint_keep",
                                   "on_checkpoint",
                                   "on_checkpoint_timeout_s",
                                   "durability",
                                   "recovery",
                                   "log_bytes_max",
                                   "log_sync_interval_s",
                                   "resume",
                                   "load",
                                   "insecure",
                                   "tls_cert_file",
                                   "tls_key_file",
                                   "tls_ca_file",
                                   "token_file"};
  return *names;
}

flags::CommandText DescribeServer() {
  v1::JobConfig config;
  v1::RoleConfig role_config;
  v1::ServerConfig server;
  return flags::DescribeCommand(Syntax(),
                                Sources(&role_config, &server, &config));
}

int RunServer(int argc, char** argv, const Clocks& clocks) {
  const flags::CommandSyntax syntax = Syntax();
  v1::JobConfig config;
  v1::ServerConfig server;
  v1::RoleConfig role_config;
  role_config.set_role("PSERVER");
  const absl::StatusOr<flags::ParsedCommandLine> parsed =
      flags::ParseCommandLine(syntax, flags::Words(argc, argv, 2),
                              Sources(&role_config, &server, &config));
  if (const std::optional<int> exit_code = flags::FinishEarly(syntax, parsed)) {
    return *exit_code;
  }
  absl::StatusOr<cluster::RoleAssignment> role =
      RoleFromEnvironment(cluster::ToExplicitRole(role_config));
  if (!role.ok()) return flags::ReportUsageError(syntax, role.status());
  role->stay = server.stay();
  const absl::Status status = Serve(config, *role, clocks);
  if (status.ok()) return 0;
  if (absl::IsInvalidArgument(status))
    return flags::ReportUsageError(syntax, status);
  std::fprintf(stderr, "oarlock server: %s\n",
               std::string(status.message()).c_str());
  return 1;
}

}  // namespace oarlock::cli
