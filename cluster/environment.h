// Who a process is in its job, read from the environment or from explicit
// arguments. The only reader of environment variables in the program.
//
// All generations of Paddle's variables are accepted, the newest that is
// present wins, and a disagreement between two is a warning that names both
// (docs/configuration.md has the table). No variable of any generation means a
// local run; half a configuration is an error in one sentence.

#ifndef OARLOCK_CLUSTER_ENVIRONMENT_H_
#define OARLOCK_CLUSTER_ENVIRONMENT_H_

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "cluster/security_options.h"
#include "proto/config/launch_config.pb.h"

namespace oarlock::cluster {

// A snapshot of environment variables.
using EnvironmentMap = std::map<std::string, std::string>;

// The process's own environment.
EnvironmentMap ReadEnvironment();

// What FLAGS_selected_gpus says: the GPUs that a launcher has for a worker.
// Empty: nothing.
std::string SelectedGpus(const EnvironmentMap& environment);

// A variable that roles are read from.
struct EnvironmentVariable {
  const char* name;
  // Which interfaces of Paddle's have it.
  const char* generation;
  const char* meaning;
  // Whether it alone says that this process belongs to a job.
  bool names_a_job;
};

// All of them, for documents and for programs that start others.
absl::Span<const EnvironmentVariable> EnvironmentVariables();

// kCollective: a worker of a job without servers.
enum class Role { kLocal, kServer, kWorker, kCollective };

inline constexpr int kMaxServers = 4096;
inline constexpr int kMaxWorkers = 65536;
// The port of servers whose port no variable says.
inline constexpr int kDefaultServerPort = 6174;

// The transpiler form: what flags or a program say. Fields that are set
// override the environment's.
struct ExplicitRole {
  std::optional<std::string> role;  // PSERVER or TRAINER
  std::optional<int> trainer_id;
  std::optional<std::string> pserver_endpoints;  // "ip:port,ip:port"
  std::optional<std::string> current_endpoint;
  std::optional<int> num_trainers;
  // A local run, whatever other launchers' variables say. It is no role.
  bool alone = false;
};

// The same as flags.
ExplicitRole ToExplicitRole(const v1::RoleConfig& config);

// What a process is. Worker fields mean something for workers only, and so on.
struct RoleAssignment {
  Role role = Role::kLocal;
  // "host:port" of every server, in the order of their indices.
  std::vector<std::string> server_endpoints;
  uint32_t server_index = 0;
  uint32_t num_workers = 1;
  uint32_t worker_index = 0;
  // "host:port" of every worker, where the environment says it; always of a
  // collective job.
  std::vector<std::string> worker_endpoints;
  std::string job_id = "default";
  // The environment's.
  SecurityOptions security;
  // A server: a descriptor that listens already (OARLOCK_LISTEN_FD); -1: none.
  int listen_descriptor = -1;
  // A server: it stays when its workers have left (--stay).
  bool stay = false;
  // How often the launcher has started this process again (OARLOCK_RESTART).
  uint32_t restarts = 0;
  // The last time with all others (OARLOCK_RESTART_TOGETHER=1).
  bool restarted_together = false;
  // Which variables or arguments decided, one sentence: the log's first line.
  std::string reason;
  // Disagreements, one sentence each.
  std::vector<std::string> warnings;
};

// What `flags` leave open is the environment's: OARLOCK_INSECURE,
// OARLOCK_TOKEN_FILE, OARLOCK_TLS_CERT_FILE, OARLOCK_TLS_KEY_FILE,
// OARLOCK_TLS_CA_FILE. InvalidArgument as ResolveRole.
absl::StatusOr<SecurityOptions> SecurityFrom(const EnvironmentMap& environment,
                                             SecurityOptions flags = {});
// The same, of two that have been read.
SecurityOptions FirstGiven(SecurityOptions flags,
                           const SecurityOptions& environment);

// Decides. Each of role, servers, number of workers and self is taken from the
// arguments, else from the newest variable that says it; an empty variable is
// one that is not set. InvalidArgument: one sentence with the variable, its
// value, what is legal and an example; for a local run also as CheckAlone
// (cluster/alone_check.h), unless arguments.alone.
absl::StatusOr<RoleAssignment> ResolveRole(const EnvironmentMap& environment,
                                           const ExplicitRole& arguments);

// "server 0 of 2", "worker 1 of 2", "local", "collective worker 0 of 4".
std::string RoleName(const RoleAssignment& role);

// What the process would become, and why: lines for `oarlock explain-env`.
std::string ExplainRole(const RoleAssignment& role);

}  // namespace oarlock::cluster

#endif  // OARLOCK_CLUSTER_ENVIRONMENT_H_
