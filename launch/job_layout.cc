#include "launch/job_layout.h"

#include <algorithm>
#include <map>
#include <set>
#include <utility>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "base/status_macros.h"
#include "cluster/endpoint.h"

namespace oarlock::launch {
namespace {

constexpr char kLoopback[] = "127.0.0.1";

template <typename List>
std::string Joined(const List& list) {
  return absl::StrJoin(list, ",");
}

std::string Variable(const cluster::EnvironmentMap& environment,
                     const std::string& name) {
  auto found = environment.find(name);
  return found == environment.end() ? "" : found->second;
}

// --start_port, else FLAGS_START_PORT, else 0.
absl::StatusOr<int> StartPort(const v1::LaunchConfig& config,
                              const cluster::EnvironmentMap& environment) {
  const std::string variable = Variable(environment, "FLAGS_START_PORT");
  if (config.has_start_port() || variable.empty()) return config.start_port();
  return cluster::ParsePort({"FLAGS_START_PORT", variable});
}

absl::Status PortsPast(int start_port, const std::string& host) {
  return absl::InvalidArgumentError(
      absl::StrCat("--start_port is ", start_port, ", and the processes of ",
                   host, " need ports past 65535; give a smaller one"));
}

// Servers and workers, or a collective job; never a guess.
struct Mode {
  bool collective = false;
  int workers_per_node = 0;
  std::vector<std::string> devices;
};

absl::StatusOr<Mode> ReadMode(const v1::LaunchConfig& config) {
  Mode mode;
  if (!config.gpus().empty()) mode.devices = cluster::SplitList(config.gpus());
  const bool servers = config.servers_size() > 0 || config.server_num() > 0;
  const bool per_device = config.has_nproc_per_node() || !mode.devices.empty();
  mode.workers_per_node = config.has_nproc_per_node()
                              ? config.nproc_per_node()
                              : static_cast<int>(mode.devices.size());
  mode.collective = !servers && per_device && config.workers_size() == 0;
  if (config.has_worker_num()) {
    if (config.has_nproc_per_node() &&
        config.worker_num() != config.nproc_per_node()) {
      return absl::InvalidArgumentError(
          absl::StrCat("--worker_num is ", config.worker_num(),
                       ", but --nproc_per_node is ", config.nproc_per_node(),
                       "; both are the workers of a node, give one of them"));
    }
    mode.workers_per_node = config.worker_num();
  }
  const bool workers = config.workers_size() > 0 || mode.workers_per_node > 0;
  if (!servers && !workers) {
    return absl::InvalidArgumentError(
        "nothing says how many processes to start; give --server_num and "
        "--worker_num (or --servers and --workers), or --nproc_per_node for a "
        "collective job, for example --server_num 2 --worker_num 2");
  }
  if (!servers && !mode.collective) {
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
  return mode;
}

// Reads --servers or --workers: "host:port" or "host".
absl::StatusOr<std::vector<ProcessLocation>> ReadLocations(
    const char* flag,
    const google::protobuf::RepeatedPtrField<std::string>& list) {
  std::vector<ProcessLocation> locations;
  for (const std::string& text : list) {
    if (cluster::IsHost(text)) {
      locations.push_back({text});
      continue;
    }
    absl::StatusOr<cluster::Endpoint> endpoint = cluster::ParseEndpoint(text);
    if (!endpoint.ok()) {
      return absl::InvalidArgumentError(absl::StrCat(
          flag, " is \"", Joined(list), "\": ", endpoint.status().message(),
          ", for example ", flag, "=127.0.0.1:6170,127.0.0.1:6171"));
    }
    locations.push_back({endpoint->host, endpoint->port});
  }
  return locations;
}

absl::Status CheckListLength(const char* flag, int count, const char* list,
                             size_t length) {
  if (static_cast<size_t>(count) == length) return absl::OkStatus();
  return absl::InvalidArgumentError(
      absl::StrCat(flag, " is ", count, ", but ", list, " names ", length,
                   "; leave ", flag, " out, or give it ", length));
}

absl::Status CheckCounts(const JobLayout& layout) {
  const size_t max_servers = cluster::kMaxServers;
  const size_t max_workers = cluster::kMaxWorkers;
  if (layout.servers.size() <= max_servers &&
      layout.workers.size() <= max_workers) {
    return absl::OkStatus();
  }
  return absl::InvalidArgumentError(absl::StrCat(
      "the flags ask for ", layout.servers.size(), " servers and ",
      layout.workers.size(), " workers; at most ", cluster::kMaxServers,
      " and ", cluster::kMaxWorkers, " are possible"));
}

absl::Status CheckDistinct(const JobLayout& layout) {
  std::vector<std::string> all = ToEndpoints(layout.servers);
  const std::vector<std::string> workers = ToEndpoints(layout.workers);
  all.insert(all.end(), workers.begin(), workers.end());
  std::sort(all.begin(), all.end());
  const auto twice = std::adjacent_find(all.begin(), all.end());
  if (twice == all.end()) return absl::OkStatus();
  return absl::InvalidArgumentError(
      absl::StrCat("the endpoint ", *twice,
                   " would belong to two processes; give each one of its own "
                   "in --servers and --workers, or another --start_port"));
}

// The layout of a job whose flags say everything.
v1::LaunchConfig WithNormalHosts(v1::LaunchConfig config) {
  if (config.has_node_ip()) {
    config.set_node_ip(cluster::NormalHost(config.node_ip()));
  }
  for (std::string& node : *config.mutable_cluster_node_ips()) {
    node = cluster::NormalHost(node);
  }
  return config;
}

class LayoutMaker {
 public:
  LayoutMaker(const v1::LaunchConfig& config,
              const cluster::EnvironmentMap& environment,
              const Machine& machine)
      : config_(WithNormalHosts(config)),
        environment_(environment),
        machine_(machine) {}

  absl::StatusOr<JobLayout> Make();

 private:
  absl::Status ReadLists();
  void FindNodes();
  absl::Status CheckNodes() const;
  void AssignNodes(int workers_per_node);
  absl::StatusOr<std::string> FindThisNode() const;
  absl::StatusOr<std::string> NodeOfThisMachine() const;
  absl::Status GivePorts();
  int IndexOf(const std::string& node) const;
  bool IsNode(const std::string& host) const {
    return IndexOf(host) < static_cast<int>(layout_.nodes.size());
  }

  const v1::LaunchConfig config_;
  const cluster::EnvironmentMap& environment_;
  const Machine& machine_;
  JobLayout layout_;
};

int LayoutMaker::IndexOf(const std::string& node) const {
  const auto& nodes = layout_.nodes;
  return static_cast<int>(std::find(nodes.begin(), nodes.end(), node) -
                          nodes.begin());
}

absl::Status LayoutMaker::ReadLists() {
  OARLOCK_ASSIGN_OR_RETURN(layout_.servers,
                           ReadLocations("--servers", config_.servers()));
  OARLOCK_ASSIGN_OR_RETURN(layout_.workers,
                           ReadLocations("--workers", config_.workers()));
  if (config_.servers_size() > 0 && config_.has_server_num()) {
    OARLOCK_RETURN_IF_ERROR(CheckListLength("--server_num",
                                            config_.server_num(), "--servers",
                                            layout_.servers.size()));
  }
  if (config_.workers_size() > 0 && config_.has_worker_num()) {
    OARLOCK_RETURN_IF_ERROR(CheckListLength("--worker_num",
                                            config_.worker_num(), "--workers",
                                            layout_.workers.size()));
  }
  return absl::OkStatus();
}

void LayoutMaker::FindNodes() {
  layout_.nodes.assign(config_.cluster_node_ips().begin(),
                       config_.cluster_node_ips().end());
  if (!layout_.nodes.empty()) return;
  for (const auto* locations : {&layout_.servers, &layout_.workers}) {
    for (const ProcessLocation& location : *locations) {
      if (!IsNode(location.host)) layout_.nodes.push_back(location.host);
    }
  }
  if (layout_.nodes.empty()) {
    layout_.nodes.push_back(config_.has_node_ip() ? config_.node_ip()
                                                  : kLoopback);
  }
}

absl::Status LayoutMaker::CheckNodes() const {
  const std::vector<std::string>& nodes = layout_.nodes;
  const std::string list = Joined(nodes);
  std::vector<std::string> sorted = nodes;
  std::sort(sorted.begin(), sorted.end());
  const auto twice = std::adjacent_find(sorted.begin(), sorted.end());
  if (twice != sorted.end()) {
    return absl::InvalidArgumentError(absl::StrCat(
        "--cluster_node_ips is \"", list, "\", which names ", *twice,
        " twice; each node stands there once, its processes are counted by "
        "--server_num and --worker_num"));
  }
  for (const std::string& node : nodes) {
    if (cluster::IsHost(node)) continue;
    return absl::InvalidArgumentError(absl::StrCat(
        "--cluster_node_ips is \"", list, "\", and \"", node,
        "\" is no address; it must be addresses without ports, for example "
        "--cluster_node_ips 10.0.0.1,10.0.0.2"));
  }
  if (config_.has_nnodes() &&
      config_.nnodes() != static_cast<int>(nodes.size())) {
    return absl::InvalidArgumentError(absl::StrCat(
        "--nnodes is ", config_.nnodes(), ", but the nodes are ", list,
        "; name all of them on every node by --cluster_node_ips, or let them "
        "meet at --master, for example --master 10.0.0.1:6170"));
  }
  if (config_.rank() >= static_cast<int>(nodes.size())) {
    return absl::InvalidArgumentError(absl::StrCat(
        "--rank is ", config_.rank(), ", but the nodes are ", list,
        "; it must be 0 to ", nodes.size() - 1, ", this node's position"));
  }
  return absl::OkStatus();
}

// Lists say where each process is; else every node has the same number.
void LayoutMaker::AssignNodes(int workers_per_node) {
  for (auto* locations : {&layout_.servers, &layout_.workers}) {
    for (ProcessLocation& location : *locations) {
      location.node = IndexOf(location.host);
    }
  }
  for (size_t node = 0; node < layout_.nodes.size(); ++node) {
    const ProcessLocation location = {layout_.nodes[node], 0,
                                      static_cast<int>(node)};
    if (config_.servers_size() == 0) {
      layout_.servers.insert(layout_.servers.end(), config_.server_num(),
                             location);
    }
    if (config_.workers_size() == 0) {
      layout_.workers.insert(layout_.workers.end(), workers_per_node, location);
    }
  }
}

absl::StatusOr<std::string> LayoutMaker::FindThisNode() const {
  const std::vector<std::string>& nodes = layout_.nodes;
  const std::string pod_ip =
      cluster::NormalHost(Variable(environment_, "POD_IP"));
  if (config_.has_node_ip()) {
    const std::string& node = config_.node_ip();
    if (!IsNode(node)) {
      return absl::InvalidArgumentError(
          absl::StrCat("--node_ip is \"", node, "\", but the nodes are ",
                       Joined(nodes), "; it must be one of them"));
    }
    if (config_.rank() >= 0 && nodes[config_.rank()] != node) {
      return absl::InvalidArgumentError(
          absl::StrCat("--node_ip is ", node, ", but --rank ", config_.rank(),
                       " is ", nodes[config_.rank()], "; give one of them"));
    }
    return node;
  }
  if (config_.rank() >= 0) return nodes[config_.rank()];
  if (nodes.size() == 1) return nodes[0];
  if (IsNode(pod_ip)) return pod_ip;
  return NodeOfThisMachine();
}

// Paddle's documents name all nodes by --ips, and none says which it is on.
absl::StatusOr<std::string> LayoutMaker::NodeOfThisMachine() const {
  std::set<std::string> own;
  for (const std::string& address : machine_.addresses()) {
    const std::string node = cluster::NormalHost(address);
    if (IsNode(node)) own.insert(node);
  }
  if (own.size() == 1) return *own.begin();
  return absl::InvalidArgumentError(absl::StrCat(
      "--node_ip is not given, and the nodes are ", Joined(layout_.nodes),
      "; say which of them this is (",
      own.empty() ? "none is an address of this machine"
                  : absl::StrCat(Joined(own), " all are this machine's"),
      "), for example --node_ip ",
      own.empty() ? layout_.nodes[0] : *own.begin()));
}

absl::Status LayoutMaker::GivePorts() {
  const auto open = [](const ProcessLocation& location) {
    return location.port == 0;
  };
  const int num_open =
      std::count_if(layout_.servers.begin(), layout_.servers.end(), open) +
      std::count_if(layout_.workers.begin(), layout_.workers.end(), open);
  if (num_open == 0) return absl::OkStatus();
  OARLOCK_ASSIGN_OR_RETURN(int start_port, StartPort(config_, environment_));
  if (start_port == 0 && layout_.nodes.size() == 1) {
    OARLOCK_ASSIGN_OR_RETURN(const std::vector<int> ports,
                             machine_.free_ports(num_open));
    size_t next = 0;
    for (auto* locations : {&layout_.servers, &layout_.workers}) {
      for (ProcessLocation& location : *locations) {
        if (open(location)) location.port = ports[next++];
      }
    }
    return absl::OkStatus();
  }
  if (start_port == 0) start_port = kDefaultStartPort;
  // Every node counts for itself: its servers first, then its workers.
  std::map<std::string, int> used;
  for (auto* locations : {&layout_.servers, &layout_.workers}) {
    for (ProcessLocation& location : *locations) {
      if (open(location)) location.port = start_port + used[location.host]++;
      if (location.port > 65535) return PortsPast(start_port, location.host);
    }
  }
  return absl::OkStatus();
}

absl::StatusOr<JobLayout> LayoutMaker::Make() {
  OARLOCK_ASSIGN_OR_RETURN(const Mode mode, ReadMode(config_));
  layout_.collective = mode.collective;
  layout_.devices = mode.devices;
  OARLOCK_RETURN_IF_ERROR(ReadLists());
  FindNodes();
  OARLOCK_RETURN_IF_ERROR(CheckNodes());
  AssignNodes(mode.workers_per_node);
  OARLOCK_RETURN_IF_ERROR(CheckCounts(layout_));
  OARLOCK_ASSIGN_OR_RETURN(const std::string this_node, FindThisNode());
  layout_.this_node = IndexOf(this_node);
  OARLOCK_RETURN_IF_ERROR(GivePorts());
  OARLOCK_RETURN_IF_ERROR(CheckDistinct(layout_));
  const auto here = [&](const ProcessLocation& location) {
    return location.node == layout_.this_node;
  };
  if (std::none_of(layout_.servers.begin(), layout_.servers.end(), here) &&
      std::none_of(layout_.workers.begin(), layout_.workers.end(), here)) {
    return absl::InvalidArgumentError(absl::StrCat(
        "the node ", this_node,
        " has neither a server nor a worker; it must occur in --servers or "
        "--workers"));
  }
  return std::move(layout_);
}

absl::Status CheckRendezvousFlags(const v1::LaunchConfig& config) {
  const std::string master =
      absl::StrCat("--master is \"", config.master(), "\"");
  const absl::StatusOr<cluster::Endpoint> endpoint =
      cluster::ParseEndpoint(config.master());
  if (!endpoint.ok() || endpoint->port == 0 || endpoint->host == "0.0.0.0") {
    return absl::InvalidArgumentError(absl::StrCat(
        master,
        absl::StrContains(config.master(), "://")
            ? "; stores such as etcd are not needed and not spoken to: it"
            : "; it",
        " must be where node 0's launcher listens, host:port, for example "
        "--master 10.0.0.1:6170"));
  }
  if (!config.has_nnodes()) {
    return absl::InvalidArgumentError(
        absl::StrCat(master,
                     ", but --nnodes is not given; say how many nodes "
                     "meet there, for example --nnodes 2"));
  }
  for (const auto& [flag, size] :
       {std::pair{"--cluster_node_ips", config.cluster_node_ips_size()},
        std::pair{"--servers", config.servers_size()},
        std::pair{"--workers", config.workers_size()}}) {
    if (size == 0) continue;
    return absl::InvalidArgumentError(
        absl::StrCat(master, ", and ", flag,
                     " says where processes are, too; give one of them"));
  }
  if (config.rank() >= config.nnodes()) {
    return absl::InvalidArgumentError(absl::StrCat(
        "--rank is ", config.rank(), ", but --nnodes is ", config.nnodes(),
        "; it must be 0 to ", config.nnodes() - 1));
  }
  if (config.has_node_ip() &&
      !cluster::IsHost(cluster::NormalHost(config.node_ip()))) {
    return absl::InvalidArgumentError(absl::StrCat(
        "--node_ip is \"", config.node_ip(),
        "\"; it must be an address without a port, for example 10.0.0.2"));
  }
  return absl::OkStatus();
}

}  // namespace

bool UsesRendezvous(const v1::LaunchConfig& config) {
  return !config.master().empty() &&
         !(config.has_nnodes() && config.nnodes() == 1);
}

absl::StatusOr<JobLayout> LayOutJob(const v1::LaunchConfig& config,
                                    const cluster::EnvironmentMap& environment,
                                    const Machine& machine) {
  return LayoutMaker(config, environment, machine).Make();
}

absl::StatusOr<v1::NodeShare> ShareOfNode(
    const v1::LaunchConfig& config, const cluster::EnvironmentMap& environment,
    const Machine& machine) {
  OARLOCK_RETURN_IF_ERROR(CheckRendezvousFlags(config));
  OARLOCK_ASSIGN_OR_RETURN(const Mode mode, ReadMode(config));
  v1::NodeShare share;
  share.set_collective(mode.collective);
  share.set_host(config.has_node_ip() ? config.node_ip()
                                      : Variable(environment, "POD_IP"));
  if (share.host().empty()) {
    OARLOCK_ASSIGN_OR_RETURN(*share.mutable_host(),
                             machine.source_address_to(config.master()));
  }
  share.set_host(cluster::NormalHost(share.host()));
  const int num_servers = config.server_num();
  const int count = num_servers + mode.workers_per_node;
  OARLOCK_ASSIGN_OR_RETURN(const int start_port,
                           StartPort(config, environment));
  std::vector<int> ports;
  if (start_port == 0) {
    OARLOCK_ASSIGN_OR_RETURN(ports, machine.free_ports(count));
  } else if (start_port + count - 1 > 65535) {
    return PortsPast(start_port, share.host());
  }
  for (int i = 0; i < count; ++i) {
    const int port = start_port == 0 ? ports[i] : start_port + i;
    auto* list = i < num_servers ? share.mutable_server_ports()
                                 : share.mutable_worker_ports();
    list->Add(port);
  }
  return share;
}

absl::StatusOr<JobLayout> LayOutNodes(const v1::LaunchConfig& config,
                                      const v1::NodesReady& attempt) {
  OARLOCK_ASSIGN_OR_RETURN(const Mode mode, ReadMode(config));
  JobLayout layout;
  layout.collective = mode.collective;
  layout.devices = mode.devices;
  layout.this_node = static_cast<int>(attempt.node());
  for (const v1::NodeShare& node : attempt.nodes()) {
    const int index = static_cast<int>(layout.nodes.size());
    layout.nodes.push_back(node.host());
    for (uint32_t port : node.server_ports()) {
      layout.servers.push_back({node.host(), static_cast<int>(port), index});
    }
    for (uint32_t port : node.worker_ports()) {
      layout.workers.push_back({node.host(), static_cast<int>(port), index});
    }
  }
  OARLOCK_RETURN_IF_ERROR(CheckCounts(layout));
  OARLOCK_RETURN_IF_ERROR(CheckDistinct(layout));
  return layout;
}

std::vector<std::string> ToEndpoints(
    const std::vector<ProcessLocation>& locations) {
  std::vector<std::string> endpoints;
  for (const ProcessLocation& location : locations) {
    endpoints.push_back(absl::StrCat(location.host, ":", location.port));
  }
  return endpoints;
}

}  // namespace oarlock::launch
