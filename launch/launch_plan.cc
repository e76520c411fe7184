#include "launch/launch_plan.h"

#include <netinet/in.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <map>
#include <optional>
#include <utility>

#include "absl/cleanup/cleanup.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "base/status_macros.h"
#include "cluster/endpoint.h"

namespace oarlock {
namespace {

constexpr char kLoopback[] = "127.0.0.1";

// gRPC obeys these for connections between the nodes as well.
constexpr const char* kProxyVariables[] = {
    "http_proxy", "https_proxy", "all_proxy", "grpc_proxy",
    "HTTP_PROXY", "HTTPS_PROXY", "ALL_PROXY"};

template <typename List>
std::string Joined(const List& list) {
  return absl::StrJoin(list, ",");
}

// A process's place; port 0 where it is still to be given.
struct Place {
  std::string host;
  int port = 0;
};

std::vector<std::string> ToEndpoints(const std::vector<Place>& places) {
  std::vector<std::string> endpoints;
  for (const Place& place : places) {
    endpoints.push_back(absl::StrCat(place.host, ":", place.port));
  }
  return endpoints;
}

class Planner {
 public:
  Planner(const v1::LaunchConfig& config, const EnvironmentMap& environment,
          const PortPicker& pick_ports)
      : config_(config), environment_(environment), pick_ports_(pick_ports) {}

  absl::StatusOr<LaunchPlan> Plan();

 private:
  std::string Variable(const std::string& name) const;
  bool has_server_list() const { return config_.servers_size() > 0; }
  bool has_worker_list() const { return config_.workers_size() > 0; }

  absl::Status CheckMode();
  absl::Status PlaceProcesses();
  absl::Status CheckNodes();
  absl::Status FindThisNode();
  absl::Status GivePorts();
  absl::Status CheckDistinct() const;
  void PlanProcesses();
  void PlanProcess(Role role, uint32_t index, const Place& place);
  EnvironmentMap SharedEnvironment() const;
  std::string DeviceOf(uint32_t local_index) const;

  const v1::LaunchConfig& config_;
  const EnvironmentMap& environment_;
  const PortPicker& pick_ports_;

  bool collective_ = false;
  int workers_per_node_ = 0;
  std::vector<std::string> devices_;
  std::vector<std::string> nodes_;
  std::string this_node_;
  std::vector<Place> servers_;
  std::vector<Place> workers_;
  LaunchPlan plan_;
};

std::string Planner::Variable(const std::string& name) const {
  auto found = environment_.find(name);
  return found == environment_.end() ? "" : found->second;
}

// Servers and workers, or a collective job; never a guess.
absl::Status Planner::CheckMode() {
  if (!config_.gpus().empty()) devices_ = SplitList(config_.gpus());
  const bool servers = has_server_list() || config_.server_num() > 0;
  const bool per_device = config_.has_nproc_per_node() || !devices_.empty();
  workers_per_node_ =
      config_.has_nproc_per_node() ? config_.nproc_per_node() : devices_.size();
  collective_ = !servers && per_device && !has_worker_list();
  if (config_.has_worker_num()) {
    if (config_.has_nproc_per_node() &&
        config_.worker_num() != config_.nproc_per_node()) {
      return absl::InvalidArgumentError(
          absl::StrCat("--worker_num is ", config_.worker_num(),
                       ", but --nproc_per_node is ", config_.nproc_per_node(),
                       "; both are the workers of a node, give one of them"));
    }
    workers_per_node_ = config_.worker_num();
  }
  const bool workers = has_worker_list() || workers_per_node_ > 0;
  if (!servers && !workers) {
    return absl::InvalidArgumentError(
        "nothing says how many processes to start; give --server_num and "
        "--worker_num (or --servers and --workers), or --nproc_per_node for a "
        "collective job, for example --server_num 2 --worker_num 2");
  }
  if (!servers && !collective_) {
    return absl::InvalidArgumentError(
        "workers are asked for, but no servers; give --server_num or "
        "--servers, or --nproc_per_node instead of --worker_num for a "
        "collective job, for example --server_num 2");
  }
  if (!workers) {
    return absl::InvalidArgumentError(
        "servers are asked for, but no workers; give --worker_num or "
        "--workers, for example --worker_num 2");
  }
  return absl::OkStatus();
}

// Reads --servers or --workers: "host:port" or "host".
absl::StatusOr<std::vector<Place>> ReadPlaces(
    const char* flag,
    const google::protobuf::RepeatedPtrField<std::string>& list) {
  std::vector<Place> places;
  for (const std::string& text : list) {
    if (IsHost(text)) {
      places.push_back({text});
      continue;
    }
    absl::StatusOr<Endpoint> endpoint = ParseEndpoint(text);
    if (!endpoint.ok()) {
      return absl::InvalidArgumentError(absl::StrCat(
          flag, " is \"", Joined(list), "\": ", endpoint.status().message(),
          ", for example ", flag, "=127.0.0.1:6170,127.0.0.1:6171"));
    }
    places.push_back({endpoint->host, endpoint->port});
  }
  return places;
}

absl::Status CheckListLength(const char* flag, int count, const char* list,
                             size_t length) {
  if (static_cast<size_t>(count) == length) return absl::OkStatus();
  return absl::InvalidArgumentError(
      absl::StrCat(flag, " is ", count, ", but ", list, " names ", length,
                   "; leave ", flag, " out, or give it ", length));
}

// Lists say where each process is; else every node has the same number.
absl::Status Planner::PlaceProcesses() {
  OARLOCK_ASSIGN_OR_RETURN(servers_,
                           ReadPlaces("--servers", config_.servers()));
  OARLOCK_ASSIGN_OR_RETURN(workers_,
                           ReadPlaces("--workers", config_.workers()));
  if (has_server_list() && config_.has_server_num()) {
    OARLOCK_RETURN_IF_ERROR(CheckListLength(
        "--server_num", config_.server_num(), "--servers", servers_.size()));
  }
  if (has_worker_list() && config_.has_worker_num()) {
    OARLOCK_RETURN_IF_ERROR(CheckListLength(
        "--worker_num", config_.worker_num(), "--workers", workers_.size()));
  }
  nodes_.assign(config_.cluster_node_ips().begin(),
                config_.cluster_node_ips().end());
  if (nodes_.empty() && !has_server_list() && !has_worker_list()) {
    nodes_.push_back(config_.has_node_ip() ? config_.node_ip() : kLoopback);
  }
  if (nodes_.empty()) {
    for (const auto* places : {&servers_, &workers_}) {
      for (const Place& place : *places) {
        if (std::find(nodes_.begin(), nodes_.end(), place.host) ==
            nodes_.end()) {
          nodes_.push_back(place.host);
        }
      }
    }
  }
  for (const std::string& node : nodes_) {
    for (int i = 0; !has_server_list() && i < config_.server_num(); ++i) {
      servers_.push_back({node});
    }
    for (int i = 0; !has_worker_list() && i < workers_per_node_; ++i) {
      workers_.push_back({node});
    }
  }
  const size_t max_servers = kMaxServers;
  if (servers_.size() > max_servers || workers_.size() > kMaxWorkers) {
    return absl::InvalidArgumentError(
        absl::StrCat("the flags ask for ", servers_.size(), " servers and ",
                     workers_.size(), " workers; at most ", kMaxServers,
                     " and ", kMaxWorkers, " are possible"));
  }
  return absl::OkStatus();
}

absl::Status Planner::CheckNodes() {
  const std::string list = Joined(nodes_);
  std::vector<std::string> sorted = nodes_;
  std::sort(sorted.begin(), sorted.end());
  const auto twice = std::adjacent_find(sorted.begin(), sorted.end());
  if (twice != sorted.end()) {
    return absl::InvalidArgumentError(absl::StrCat(
        "--cluster_node_ips is \"", list, "\", which names ", *twice,
        " twice; each node stands there once, its processes are counted by "
        "--server_num and --worker_num"));
  }
  for (const std::string& node : nodes_) {
    if (IsHost(node)) continue;
    return absl::InvalidArgumentError(absl::StrCat(
        "--cluster_node_ips is \"", list, "\", and \"", node,
        "\" is no address; it must be addresses without ports, for example "
        "--cluster_node_ips 10.0.0.1,10.0.0.2"));
  }
  if (config_.has_nnodes() &&
      config_.nnodes() != static_cast<int>(nodes_.size())) {
    return absl::InvalidArgumentError(absl::StrCat(
        "--nnodes is ", config_.nnodes(), ", but the nodes are ", list,
        "; name all of them on every node by --cluster_node_ips"));
  }
  if (config_.rank() >= static_cast<int>(nodes_.size())) {
    return absl::InvalidArgumentError(absl::StrCat(
        "--rank is ", config_.rank(), ", but the nodes are ", list,
        "; it must be 0 to ", nodes_.size() - 1, ", this node's position"));
  }
  return absl::OkStatus();
}

absl::Status Planner::FindThisNode() {
  const auto is_node = [&](const std::string& ip) {
    return std::find(nodes_.begin(), nodes_.end(), ip) != nodes_.end();
  };
  if (config_.has_node_ip()) {
    this_node_ = config_.node_ip();
    if (!is_node(this_node_)) {
      return absl::InvalidArgumentError(
          absl::StrCat("--node_ip is \"", this_node_, "\", but the nodes are ",
                       Joined(nodes_), "; it must be one of them"));
    }
    if (config_.rank() >= 0 && nodes_[config_.rank()] != this_node_) {
      return absl::InvalidArgumentError(absl::StrCat(
          "--node_ip is ", this_node_, ", but --rank ", config_.rank(), " is ",
          nodes_[config_.rank()], "; give one of them"));
    }
  } else if (config_.rank() >= 0) {
    this_node_ = nodes_[config_.rank()];
  } else if (nodes_.size() == 1) {
    this_node_ = nodes_[0];
  } else if (is_node(Variable("POD_IP"))) {
    this_node_ = Variable("POD_IP");
  } else if (is_node(kLoopback)) {
    this_node_ = kLoopback;
  } else {
    return absl::InvalidArgumentError(absl::StrCat(
        "--node_ip is not given, and the nodes are ", Joined(nodes_),
        "; say which of them this is, for example --node_ip ", nodes_[0]));
  }
  return absl::OkStatus();
}

absl::Status Planner::GivePorts() {
  const auto open = [](const Place& place) { return place.port == 0; };
  const int num_open = std::count_if(servers_.begin(), servers_.end(), open) +
                       std::count_if(workers_.begin(), workers_.end(), open);
  if (num_open == 0) return absl::OkStatus();
  int start_port = config_.start_port();
  const std::string variable = Variable("FLAGS_START_PORT");
  if (!config_.has_start_port() && !variable.empty()) {
    OARLOCK_ASSIGN_OR_RETURN(start_port,
                             ParsePort({"FLAGS_START_PORT", variable}));
  }
  if (start_port == 0 && nodes_.size() == 1) {
    OARLOCK_ASSIGN_OR_RETURN(const std::vector<int> ports,
                             pick_ports_(num_open));
    size_t next = 0;
    for (auto* places : {&servers_, &workers_}) {
      for (Place& place : *places) {
        if (open(place)) place.port = ports[next++];
      }
    }
    return absl::OkStatus();
  }
  if (start_port == 0) start_port = kDefaultStartPort;
  // Every node counts for itself: its servers first, then its workers.
  std::map<std::string, int> used;
  for (auto* places : {&servers_, &workers_}) {
    for (Place& place : *places) {
      if (open(place)) place.port = start_port + used[place.host]++;
      if (place.port > 65535) {
        return absl::InvalidArgumentError(absl::StrCat(
            "--start_port is ", start_port, ", and the processes of ",
            place.host, " need ports past 65535; give a smaller one"));
      }
    }
  }
  return absl::OkStatus();
}

absl::Status Planner::CheckDistinct() const {
  std::vector<std::string> all = plan_.server_endpoints;
  all.insert(all.end(), plan_.worker_endpoints.begin(),
             plan_.worker_endpoints.end());
  std::sort(all.begin(), all.end());
  const auto twice = std::adjacent_find(all.begin(), all.end());
  if (twice == all.end()) return absl::OkStatus();
  return absl::InvalidArgumentError(
      absl::StrCat("the endpoint ", *twice,
                   " would belong to two processes; give each one of its own "
                   "in --servers and --workers, or another --start_port"));
}

EnvironmentMap Planner::SharedEnvironment() const {
  const std::string num_workers = absl::StrCat(workers_.size());
  EnvironmentMap shared = {
      {"PADDLE_TRAINERS_NUM", num_workers},
      {"PADDLE_TRAINERS", num_workers},
      {"PADDLE_TRAINER_ENDPOINTS", Joined(plan_.worker_endpoints)},
      {"PADDLE_JOB_ID", plan_.job_id},
      {"SYS_JOB_ID", plan_.job_id},
  };
  if (collective_) return shared;
  shared["PADDLE_PSERVERS_IP_PORT_LIST"] = Joined(plan_.server_endpoints);
  // PADDLE_PSERVERS is never set: it would make PADDLE_PORT, which is the
  // process's own port here, that of the servers.
  const bool one_port = std::all_of(
      servers_.begin(), servers_.end(),
      [&](const Place& server) { return server.port == servers_[0].port; });
  if (one_port) {
    std::vector<std::string> hosts;
    for (const Place& server : servers_) hosts.push_back(server.host);
    shared["PADDLE_PSERVER_IPS"] = Joined(hosts);
    shared["PADDLE_PSERVER_PORT"] = absl::StrCat(servers_[0].port);
  }
  return shared;
}

std::string Planner::DeviceOf(uint32_t local_index) const {
  return devices_.empty() ? "" : devices_[local_index % devices_.size()];
}

void Planner::PlanProcess(Role role, uint32_t index, const Place& place) {
  ProcessPlan process;
  process.role = role;
  process.index = index;
  const bool server = role == Role::kServer;
  process.log_file = absl::StrCat(plan_.log_dir, "/",
                                  server ? "serverlog." : "workerlog.", index);
  EnvironmentMap& variables = process.environment;
  variables = SharedEnvironment();
  variables["PADDLE_TRAINING_ROLE"] = server ? "PSERVER" : "TRAINER";
  variables["POD_IP"] = place.host;
  variables["PADDLE_CURRENT_IP"] = place.host;
  variables["PADDLE_PORT"] = absl::StrCat(place.port);
  variables[server ? "PADDLE_PSERVER_ID" : "PADDLE_TRAINER_ID"] =
      absl::StrCat(index);
  if (role != Role::kCollective) {
    variables["TRAINING_ROLE"] = variables["PADDLE_TRAINING_ROLE"];
  }
  const uint32_t local_index = plan_.NumLocal(role);
  if (role == Role::kCollective) {
    variables["PADDLE_CURRENT_ENDPOINT"] = plan_.worker_endpoints[index];
    variables["PADDLE_RANK_IN_NODE"] = absl::StrCat(local_index);
  }
  if (!server && !devices_.empty()) {
    variables["FLAGS_selected_gpus"] = DeviceOf(local_index);
  }
  plan_.processes.push_back(std::move(process));
}

void Planner::PlanProcesses() {
  for (size_t i = 0; i < servers_.size(); ++i) {
    if (servers_[i].host == this_node_) {
      PlanProcess(Role::kServer, i, servers_[i]);
    }
  }
  for (size_t i = 0; i < workers_.size(); ++i) {
    if (workers_[i].host == this_node_) {
      PlanProcess(collective_ ? Role::kCollective : Role::kWorker, i,
                  workers_[i]);
    }
  }
}

absl::StatusOr<LaunchPlan> Planner::Plan() {
  OARLOCK_RETURN_IF_ERROR(CheckMode());
  OARLOCK_RETURN_IF_ERROR(PlaceProcesses());
  OARLOCK_RETURN_IF_ERROR(CheckNodes());
  OARLOCK_RETURN_IF_ERROR(FindThisNode());
  OARLOCK_RETURN_IF_ERROR(GivePorts());
  plan_.server_endpoints = ToEndpoints(servers_);
  plan_.worker_endpoints = ToEndpoints(workers_);
  OARLOCK_RETURN_IF_ERROR(CheckDistinct());
  plan_.log_dir = config_.log_dir();
  plan_.max_restart = config_.max_restart();
  plan_.job_id = config_.job_id();
  for (const char* name : {"PADDLE_JOB_ID", "SYS_JOB_ID"}) {
    if (plan_.job_id.empty()) plan_.job_id = Variable(name);
  }
  if (plan_.job_id.empty()) plan_.job_id = "default";
  plan_.base_environment = environment_;
  for (const EnvironmentVariable& variable : EnvironmentVariables()) {
    if (std::string("OARLOCK_INSECURE") == variable.name) continue;
    plan_.base_environment.erase(variable.name);
  }
  for (const char* name : kProxyVariables) plan_.base_environment.erase(name);
  PlanProcesses();
  if (plan_.processes.empty()) {
    return absl::InvalidArgumentError(absl::StrCat(
        "the node ", this_node_,
        " has neither a server nor a worker; it must occur in --servers or "
        "--workers"));
  }
  return std::move(plan_);
}

}  // namespace

std::string ProcessPlan::Name() const {
  return absl::StrCat(role == Role::kServer ? "server " : "worker ", index);
}

int LaunchPlan::NumLocal(Role role) const {
  return std::count_if(
      processes.begin(), processes.end(),
      [&](const ProcessPlan& process) { return process.role == role; });
}

absl::StatusOr<std::vector<int>> FreePorts(int count) {
  // All sockets are open at once, so that no port is given twice.
  std::vector<int> sockets;
  absl::Cleanup close_all = [&] {
    for (int fd : sockets) close(fd);
  };
  std::vector<int> ports;
  for (int i = 0; i < count; ++i) {
    const int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    if (fd >= 0) sockets.push_back(fd);
    sockaddr_in address = {};
    address.sin_family = AF_INET;
    address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    socklen_t size = sizeof(address);
    auto* generic = reinterpret_cast<sockaddr*>(&address);
    if (fd < 0 || bind(fd, generic, size) != 0 ||
        getsockname(fd, generic, &size) != 0) {
      return absl::ResourceExhaustedError(absl::StrCat(
          "no free port on 127.0.0.1 for process ", i + 1, " of ", count, ": ",
          std::strerror(errno), "; give --start_port or fewer processes"));
    }
    ports.push_back(ntohs(address.sin_port));
  }
  return ports;
}

absl::StatusOr<LaunchPlan> PlanLaunch(const v1::LaunchConfig& config,
                                      const EnvironmentMap& environment,
                                      const PortPicker& pick_ports) {
  return Planner(config, environment, pick_ports).Plan();
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

}  // namespace oarlock
