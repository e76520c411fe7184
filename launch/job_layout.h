// Where each process of a job runs: from the flags alone, which are the same on
// every node, or from what the nodes told one another at --master.

#ifndef OARLOCK_LAUNCH_JOB_LAYOUT_H_
#define OARLOCK_LAUNCH_JOB_LAYOUT_H_

#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "cluster/environment.h"
#include "launch/machine.h"
#include "proto/config/launch_config.pb.h"
#include "proto/v1/launch.pb.h"

namespace oarlock::launch {

// The port after which servers listen on many nodes.
inline constexpr int kDefaultStartPort = 6170;

// Where a process runs.
struct ProcessLocation {
  std::string host;
  // 0 where it is still to be given.
  int port = 0;
  // Index in JobLayout::nodes.
  int node = 0;
};

struct JobLayout {
  // Without servers.
  bool collective = false;
  // Their addresses. Two nodes that met at --master may have the same.
  std::vector<std::string> nodes;
  int this_node = 0;
  // Of the whole job, by index. Workers are in order of their nodes, except
  // where --workers says otherwise: trainer 0 is the first device of the first
  // node.
  std::vector<ProcessLocation> servers;
  std::vector<ProcessLocation> workers;
  // Of this node.
  std::vector<std::string> devices;
};

// Whether the nodes have to meet before anybody knows the layout.
bool UsesRendezvous(const v1::LaunchConfig& config);

// REQUIRES: !UsesRendezvous(config). InvalidArgument: one sentence with the
// flag, its value and what is legal.
absl::StatusOr<JobLayout> LayOutJob(const v1::LaunchConfig& config,
                                    const cluster::EnvironmentMap& environment,
                                    const Machine& machine);

// What this node brings to the rendezvous; ports are those from --start_port or
// FLAGS_START_PORT on, else free ones. REQUIRES: UsesRendezvous(config). Errors
// as LayOutJob; Unavailable: no address is given and none leads to --master.
absl::StatusOr<v1::NodeShare> ShareOfNode(
    const v1::LaunchConfig& config, const cluster::EnvironmentMap& environment,
    const Machine& machine);

// The layout that follows from the shares of all nodes, in order of their
// ranks. InvalidArgument: two processes have the same endpoint, or there are
// too many.
absl::StatusOr<JobLayout> LayOutNodes(const v1::LaunchConfig& config,
                                      const v1::NodesReady& attempt);

// "host:port" of each.
std::vector<std::string> ToEndpoints(
    const std::vector<ProcessLocation>& locations);

}  // namespace oarlock::launch

#endif  // OARLOCK_LAUNCH_JOB_LAYOUT_H_
