#include "cluster/environment.h"

#include <unistd.h>

#include <string>
#include <utility>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/str_split.h"
#include "cluster/endpoint.h"
#include "cluster/role_resolver.h"

extern char** environ;

namespace oarlock::cluster {
namespace {

// Newest first, as they win.
constexpr EnvironmentVariable kVariables[] = {
    {"TRAINING_ROLE", "Fleet", "PSERVER or TRAINER", true},
    {"PADDLE_TRAINING_ROLE", "Fluid, collective", "PSERVER or TRAINER", true},
    {"PADDLE_PSERVERS_IP_PORT_LIST", "Fleet",
     "endpoints of all servers, ip:port,ip:port", true},
    {"PADDLE_PSERVERS", "Fleet 1.x",
     "addresses of all servers; PADDLE_PORT has their port or ports", true},
    {"PADDLE_PSERVER_IPS", "Fluid", "addresses of all servers", true},
    {"PADDLE_PSERVER_PORT", "Fluid",
     "the port of all servers, 6174 by default; collective: of the workers",
     true},
    {"PADDLE_TRAINERS_NUM", "Fleet", "number of workers", true},
    {"PADDLE_TRAINERS", "Fluid", "number of workers", true},
    {"PADDLE_TRAINER_ENDPOINTS", "Fleet 2.x, collective",
     "endpoints of all workers, ip:port,ip:port", true},
    {"PADDLE_TRAINER_IPS", "Fluid collective", "addresses of all workers",
     true},
    {"PADDLE_TRAINER_ID", "all",
     "this worker's index, from 0; may be missing where there is one worker",
     true},
    {"POD_IP", "Fleet", "this process's address", false},
    {"PADDLE_PORT", "Fleet",
     "this server's port; beside PADDLE_PSERVERS the port of all servers, or a "
     "list with one for each; 6174 by default",
     true},
    {"PADDLE_PSERVER_ID", "Fleet 1.7",
     "this server's index, from 0, where no address says it", true},
    {"PADDLE_CURRENT_ENDPOINT", "collective", "this worker's endpoint", true},
    {"PADDLE_CURRENT_IP", "Fluid", "this process's address", true},
    {"PADDLE_JOB_ID", "Fleet 2.x", "name of the job", false},
    {"SYS_JOB_ID", "Fleet 1.x", "name of the job", false},
    {"OARLOCK_INSECURE", "Oarlock",
     "1: serve beyond loopback without TLS and token", false},
    {"OARLOCK_TOKEN_FILE", "Oarlock", "as --token_file", false},
    {"OARLOCK_TLS_CERT_FILE", "Oarlock", "as --tls_cert_file", false},
    {"OARLOCK_TLS_KEY_FILE", "Oarlock", "as --tls_key_file", false},
    {"OARLOCK_TLS_CA_FILE", "Oarlock", "as --tls_ca_file", false},
    {"OARLOCK_RESTART", "Oarlock",
     "how often the launcher has started this process again", false},
    {"OARLOCK_ALONE", "Oarlock",
     "1: as --alone: train alone, though other launchers' variables say that "
     "this is one of several processes",
     false},
    {"OARLOCK_LISTEN_FD", "Oarlock",
     "a descriptor on which a server takes connections, which listens already",
     false},
    {"OARLOCK_RESTART_TOGETHER", "Oarlock",
     "1: and all others with it, to go on from their last checkpoint", false},
};

}  // namespace

absl::Span<const EnvironmentVariable> EnvironmentVariables() {
  return kVariables;
}

EnvironmentMap ReadEnvironment() {
  EnvironmentMap environment;
  for (char** entry = environ; entry != nullptr && *entry != nullptr; ++entry) {
    const std::pair<std::string, std::string> parts =
        absl::StrSplit(*entry, absl::MaxSplits('=', 1));
    environment.insert(parts);
  }
  return environment;
}

std::string SelectedGpus(const EnvironmentMap& environment) {
  const auto found = environment.find("FLAGS_selected_gpus");
  return found == environment.end() ? "" : found->second;
}

SecurityOptions FirstGiven(SecurityOptions flags,
                           const SecurityOptions& environment) {
  flags.insecure = flags.insecure || environment.insecure;
  for (std::string SecurityOptions::*file :
       {&SecurityOptions::tls_cert_file, &SecurityOptions::tls_key_file,
        &SecurityOptions::tls_ca_file, &SecurityOptions::token_file}) {
    if ((flags.*file).empty()) flags.*file = environment.*file;
  }
  return flags;
}

absl::StatusOr<SecurityOptions> SecurityFrom(const EnvironmentMap& environment,
                                             SecurityOptions flags) {
  const auto value = [&](const char* name) -> std::string {
    const auto found = environment.find(name);
    return found == environment.end() ? "" : found->second;
  };
  SecurityOptions said;
  const std::string insecure = value("OARLOCK_INSECURE");
  if (!insecure.empty() && !absl::SimpleAtob(insecure, &said.insecure)) {
    return WrongSetting({"OARLOCK_INSECURE", insecure}, "1 or 0", "1");
  }
  said.token_file = value("OARLOCK_TOKEN_FILE");
  said.tls_cert_file = value("OARLOCK_TLS_CERT_FILE");
  said.tls_key_file = value("OARLOCK_TLS_KEY_FILE");
  said.tls_ca_file = value("OARLOCK_TLS_CA_FILE");
  return FirstGiven(std::move(flags), said);
}

ExplicitRole ToExplicitRole(const v1::RoleConfig& config) {
  ExplicitRole role;
  if (config.has_role()) role.role = config.role();
  if (config.has_trainer_id()) role.trainer_id = config.trainer_id();
  if (config.has_pserver_endpoints()) {
    role.pserver_endpoints = config.pserver_endpoints();
  }
  if (config.has_current_endpoint()) {
    role.current_endpoint = config.current_endpoint();
  }
  if (config.has_trainers()) role.num_trainers = config.trainers();
  role.alone = config.alone();
  return role;
}

absl::StatusOr<RoleAssignment> ResolveRole(const EnvironmentMap& environment,
                                           const ExplicitRole& arguments) {
  return RoleResolver(environment, arguments).Resolve();
}

std::string RoleName(const RoleAssignment& role) {
  switch (role.role) {
    case Role::kLocal:
      return "local";
    case Role::kServer:
      return absl::StrCat("server ", role.server_index, " of ",
                          role.server_endpoints.size());
    case Role::kWorker:
      return absl::StrCat("worker ", role.worker_index, " of ",
                          role.num_workers);
    case Role::kCollective:
      return absl::StrCat("collective worker ", role.worker_index, " of ",
                          role.num_workers);
  }
  return "";
}

std::string ExplainRole(const RoleAssignment& role) {
  std::string text = absl::StrCat("role      ", RoleName(role), "\n",
                                  "because   ", role.reason, "\n");
  if (role.role == Role::kServer) {
    absl::StrAppend(&text, "listens   ",
                    role.server_endpoints[role.server_index], "\n");
  }
  if (!role.server_endpoints.empty()) {
    absl::StrAppend(&text, "servers   ", role.server_endpoints.size(), ": ",
                    absl::StrJoin(role.server_endpoints, ", "), "\n");
  }
  absl::StrAppend(&text, "workers   ", role.num_workers,
                  role.worker_endpoints.empty() ? "" : ": ",
                  absl::StrJoin(role.worker_endpoints, ", "), "\n");
  absl::StrAppend(&text, "job       ", role.job_id, "\n");
  if (role.security.insecure) {
    absl::StrAppend(&text,
                    "security  none beyond loopback either "
                    "(OARLOCK_INSECURE=1)\n");
  }
  for (const std::string& warning : role.warnings) {
    absl::StrAppend(&text, "warning   ", warning, "\n");
  }
  return text;
}

}  // namespace oarlock::cluster
