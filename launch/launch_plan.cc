#include "launch/launch_plan.h"

#include <algorithm>
#include <utility>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/string_view.h"
#include "base/status_macros.h"

namespace oarlock::launch {
namespace {

// gRPC obeys these for connections between the nodes as well.
constexpr const char* kProxyVariables[] = {
    "http_proxy", "https_proxy", "all_proxy", "grpc_proxy",
    "HTTP_PROXY", "HTTPS_PROXY", "ALL_PROXY"};

// What ranks of Paddle 2.x find beside what roles are read from. That of an
// outer launcher must not reach a process.
constexpr const char* kRankVariables[] = {
    "PADDLE_MASTER",      "PADDLE_NNODES",      "PADDLE_GLOBAL_SIZE",
    "PADDLE_LOCAL_SIZE",  "PADDLE_GLOBAL_RANK", "PADDLE_LOCAL_RANK",
    "PADDLE_RANK_IN_NODE"};

// OpenMP's, with which workers compute.
constexpr char kThreadsVariable[] = "OMP_NUM_THREADS";

std::vector<std::string> HostsOf(
    const std::vector<ProcessLocation>& locations) {
  std::vector<std::string> hosts;
  for (const ProcessLocation& location : locations) {
    hosts.push_back(location.host);
  }
  return hosts;
}

bool HaveOnePort(const std::vector<ProcessLocation>& locations) {
  return std::all_of(locations.begin(), locations.end(),
                     [&](const ProcessLocation& location) {
                       return location.port == locations[0].port;
                     });
}

// What the processes have in common with the launcher.
bool IsSecurity(absl::string_view name) {
  return name == "OARLOCK_INSECURE" || name == "OARLOCK_TOKEN_FILE" ||
         absl::StartsWith(name, "OARLOCK_TLS_");
}

class Planner {
 public:
  Planner(const JobLayout& layout, const v1::LaunchConfig& config,
          const cluster::EnvironmentMap& environment, int num_cores)
      : layout_(layout),
        config_(config),
        environment_(environment),
        num_cores_(num_cores) {}

  LaunchPlan Plan();

 private:
  void PlanProcess(cluster::Role role, uint32_t index,
                   const ProcessLocation& location);
  cluster::EnvironmentMap SharedEnvironment() const;
  // Fluid's: addresses under `addresses`, and one port.
  void SetFluid(const char* addresses,
                const std::vector<ProcessLocation>& locations,
                cluster::EnvironmentMap* shared) const;
  int NumLocalWorkers() const;
  void SetRank(uint32_t index, uint32_t local_index,
               cluster::EnvironmentMap* variables) const;
  cluster::EnvironmentMap BaseEnvironment() const;

  const JobLayout& layout_;
  const v1::LaunchConfig& config_;
  const cluster::EnvironmentMap& environment_;
  const int num_cores_;
  LaunchPlan plan_;
};

void Planner::SetFluid(const char* addresses,
                       const std::vector<ProcessLocation>& locations,
                       cluster::EnvironmentMap* shared) const {
  if (!HaveOnePort(locations)) return;
  (*shared)[addresses] = absl::StrJoin(HostsOf(locations), ",");
  (*shared)["PADDLE_PSERVER_PORT"] = absl::StrCat(locations[0].port);
}

cluster::EnvironmentMap Planner::SharedEnvironment() const {
  const std::string num_workers = absl::StrCat(layout_.workers.size());
  cluster::EnvironmentMap shared = {
      {"PADDLE_TRAINERS_NUM", num_workers},
      {"PADDLE_TRAINERS", num_workers},
      {"PADDLE_TRAINER_ENDPOINTS", absl::StrJoin(plan_.worker_endpoints, ",")},
      {"PADDLE_JOB_ID", plan_.job_id},
      {"SYS_JOB_ID", plan_.job_id},
  };
  if (layout_.collective) {
    // Where rank 0 serves the rendezvous; Paddle's is one more port there.
    shared["PADDLE_MASTER"] = plan_.worker_endpoints[0];
    shared["PADDLE_NNODES"] = absl::StrCat(layout_.nodes.size());
    shared["PADDLE_GLOBAL_SIZE"] = num_workers;
    SetFluid("PADDLE_TRAINER_IPS", layout_.workers, &shared);
    return shared;
  }
  shared["PADDLE_PSERVERS_IP_PORT_LIST"] =
      absl::StrJoin(plan_.server_endpoints, ",");
  // PADDLE_PSERVERS is never set: it would make PADDLE_PORT, which is the
  // process's own port here, that of the servers.
  SetFluid("PADDLE_PSERVER_IPS", layout_.servers, &shared);
  return shared;
}

int Planner::NumLocalWorkers() const {
  return std::count_if(layout_.workers.begin(), layout_.workers.end(),
                       [&](const ProcessLocation& location) {
                         return location.node == layout_.this_node;
                       });
}

void Planner::SetRank(uint32_t index, uint32_t local_index,
                      cluster::EnvironmentMap* variables) const {
  (*variables)["PADDLE_CURRENT_ENDPOINT"] = plan_.worker_endpoints[index];
  (*variables)["PADDLE_RANK_IN_NODE"] = absl::StrCat(local_index);
  (*variables)["PADDLE_LOCAL_RANK"] = absl::StrCat(local_index);
  (*variables)["PADDLE_LOCAL_SIZE"] = absl::StrCat(NumLocalWorkers());
  (*variables)["PADDLE_GLOBAL_RANK"] = absl::StrCat(index);
}

void Planner::PlanProcess(cluster::Role role, uint32_t index,
                          const ProcessLocation& location) {
  if (location.node != layout_.this_node) return;
  ProcessPlan process;
  process.role = role;
  process.index = index;
  const bool server = role == cluster::Role::kServer;
  process.log_file = absl::StrCat(plan_.log_dir, "/",
                                  server ? "serverlog." : "workerlog.", index);
  cluster::EnvironmentMap& variables = process.environment;
  variables = SharedEnvironment();
  variables["PADDLE_TRAINING_ROLE"] = server ? "PSERVER" : "TRAINER";
  variables["POD_IP"] = location.host;
  variables["PADDLE_CURRENT_IP"] = location.host;
  variables["PADDLE_PORT"] = absl::StrCat(location.port);
  variables[server ? "PADDLE_PSERVER_ID" : "PADDLE_TRAINER_ID"] =
      absl::StrCat(index);
  if (role != cluster::Role::kCollective) {
    variables["TRAINING_ROLE"] = variables["PADDLE_TRAINING_ROLE"];
  }
  const uint32_t local_index = plan_.NumLocal(role);
  if (role == cluster::Role::kCollective)
    SetRank(index, local_index, &variables);
  if (!server && !layout_.devices.empty()) {
    variables["FLAGS_selected_gpus"] =
        layout_.devices[local_index % layout_.devices.size()];
  }
  if (!server && !environment_.contains(kThreadsVariable)) {
    variables[kThreadsVariable] =
        absl::StrCat(std::max(1, num_cores_ / NumLocalWorkers()));
  }
  plan_.processes.push_back(std::move(process));
}

cluster::EnvironmentMap Planner::BaseEnvironment() const {
  cluster::EnvironmentMap base = environment_;
  for (const cluster::EnvironmentVariable& variable :
       cluster::EnvironmentVariables()) {
    if (!IsSecurity(variable.name)) base.erase(variable.name);
  }
  for (const char* name : kRankVariables) base.erase(name);
  for (const char* name : kProxyVariables) base.erase(name);
  return base;
}

LaunchPlan Planner::Plan() {
  plan_.collective = layout_.collective;
  plan_.server_endpoints = ToEndpoints(layout_.servers);
  plan_.worker_endpoints = ToEndpoints(layout_.workers);
  plan_.job_id = JobIdOf(config_, environment_);
  plan_.log_dir = config_.log_dir();
  plan_.max_restart = config_.max_restart();
  plan_.base_environment = BaseEnvironment();
  for (size_t i = 0; i < layout_.servers.size(); ++i) {
    PlanProcess(cluster::Role::kServer, i, layout_.servers[i]);
  }
  for (size_t i = 0; i < layout_.workers.size(); ++i) {
    PlanProcess(layout_.collective ? cluster::Role::kCollective
                                   : cluster::Role::kWorker,
                i, layout_.workers[i]);
  }
  return std::move(plan_);
}

}  // namespace

std::string ProcessPlan::Name() const {
  return absl::StrCat(role == cluster::Role::kServer ? "server " : "worker ",
                      index);
}

int LaunchPlan::NumLocal(cluster::Role role) const {
  return std::count_if(
      processes.begin(), processes.end(),
      [&](const ProcessPlan& process) { return process.role == role; });
}

absl::StatusOr<LaunchPlan> PlanLaunch(
    const v1::LaunchConfig& config, const cluster::EnvironmentMap& environment,
    const Machine& machine) {
  OARLOCK_ASSIGN_OR_RETURN(const JobLayout layout,
                           LayOutJob(config, environment, machine));
  return PlanProcesses(layout, config, environment, machine.num_cores());
}

LaunchPlan PlanProcesses(const JobLayout& layout,
                         const v1::LaunchConfig& config,
                         const cluster::EnvironmentMap& environment,
                         int num_cores) {
  return Planner(layout, config, environment, num_cores).Plan();
}

void InheritListener(ProcessPlan* process, int descriptor) {
  process->inherited_descriptor = descriptor;
  process->environment["OARLOCK_LISTEN_FD"] = absl::StrCat(descriptor);
}

std::string JobIdOf(const v1::LaunchConfig& config,
                    const cluster::EnvironmentMap& environment) {
  if (!config.job_id().empty()) return config.job_id();
  for (const char* name : {"PADDLE_JOB_ID", "SYS_JOB_ID"}) {
    auto found = environment.find(name);
    if (found != environment.end() && !found->second.empty()) {
      return found->second;
    }
  }
  return "default";
}

std::string DescribePlan(const LaunchPlan& plan) {
  std::string text =
      absl::StrCat("job ", plan.job_id, ": ", plan.server_endpoints.size(),
                   " servers, ", plan.worker_endpoints.size(), " workers, ",
                   plan.processes.size(), " processes on this node\n");
  for (const ProcessPlan& process : plan.processes) {
    absl::StrAppend(&text, process.Name(), "  log ", process.log_file, "\n");
    for (const auto& [name, value] : process.environment) {
      absl::StrAppend(&text, "  ", name, "=", value, "\n");
    }
  }
  return text;
}

}  // namespace oarlock::launch
