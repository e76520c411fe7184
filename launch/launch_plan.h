// Which processes of a job run on this node, and with which environment: a
// function of the launcher's flags, the same on every node.

#ifndef OARLOCK_LAUNCH_LAUNCH_PLAN_H_
#define OARLOCK_LAUNCH_LAUNCH_PLAN_H_

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "cluster/environment.h"
#include "proto/launch_config.pb.h"

namespace oarlock {

// A process of this node.
struct ProcessPlan {
  // kServer, kWorker or kCollective.
  Role role = Role::kWorker;
  // Among all of its role in the job.
  uint32_t index = 0;
  // What it gets beside LaunchPlan::base_environment.
  EnvironmentMap environment;
  std::string log_file;

  // "server 0", "worker 1".
  std::string Name() const;
};

struct LaunchPlan {
  // Of the whole job, by index.
  std::vector<std::string> server_endpoints;
  std::vector<std::string> worker_endpoints;
  std::string job_id;
  // This node's, servers first.
  std::vector<ProcessPlan> processes;
  // The launcher's own environment without roles and without HTTP proxies,
  // which would catch the traffic between the nodes.
  EnvironmentMap base_environment;
  std::string log_dir;
  int max_restart = 0;

  int NumLocal(Role role) const;
};

// `count` ports on 127.0.0.1 that are free at this moment.
absl::StatusOr<std::vector<int>> FreePorts(int count);
using PortPicker = std::function<absl::StatusOr<std::vector<int>>(int count)>;

// The port after which servers listen on many nodes.
inline constexpr int kDefaultStartPort = 6170;

// Computes the plan. Every generation's variables are set consistently, so
// ResolveRole of a process's environment gives its role without a warning.
// Fluid's variables, which have one port for all servers, are set only where
// all servers have the same. `pick_ports` is asked only for a job of one node
// without a port. InvalidArgument: one sentence with the flag, its value and
// what is legal.
absl::StatusOr<LaunchPlan> PlanLaunch(const v1::LaunchConfig& config,
                                      const EnvironmentMap& environment,
                                      const PortPicker& pick_ports = FreePorts);

// Lines for --print_config: each process, its log and its variables.
std::string DescribePlan(const LaunchPlan& plan);

}  // namespace oarlock

#endif  // OARLOCK_LAUNCH_LAUNCH_PLAN_H_
