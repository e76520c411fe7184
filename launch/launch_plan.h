// Which processes of a job run on this node, and with which environment.

#ifndef OARLOCK_LAUNCH_LAUNCH_PLAN_H_
#define OARLOCK_LAUNCH_LAUNCH_PLAN_H_

#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "cluster/environment.h"
#include "launch/job_layout.h"
#include "launch/machine.h"
#include "proto/config/launch_config.pb.h"

namespace oarlock::launch {

// A process of this node.
struct ProcessPlan {
  // kServer, kWorker or kCollective.
  cluster::Role role = cluster::Role::kWorker;
  // Among all of its role in the job.
  uint32_t index = 0;
  // What it gets beside LaunchPlan::base_environment.
  cluster::EnvironmentMap environment;
  std::string log_file;
  // A descriptor of the launcher's that the process gets under the same number;
  // -1: none.
  int inherited_descriptor = -1;

  // "server 0", "worker 1".
  std::string Name() const;
};

struct LaunchPlan {
  // Without servers.
  bool collective = false;
  // Of the whole job, by index.
  std::vector<std::string> server_endpoints;
  std::vector<std::string> worker_endpoints;
  std::string job_id;
  // This node's, servers first.
  std::vector<ProcessPlan> processes;
  // The launcher's own environment without roles and without HTTP proxies,
  // which would catch the traffic between the nodes.
  cluster::EnvironmentMap base_environment;
  std::string log_dir;
  int max_restart = 0;

  int NumLocal(cluster::Role role) const;
};

// Computes the plan of a job whose flags say everything (LayOutJob), with its
// errors.
absl::StatusOr<LaunchPlan> PlanLaunch(
    const v1::LaunchConfig& config, const cluster::EnvironmentMap& environment,
    const Machine& machine = {});

// The plan that follows from a layout. Every generation's variables are set
// consistently, so ResolveRole of a process's environment gives its role
// without a warning. Fluid's variables, which have one port for all servers (or
// for all ranks of a collective job), are set only where all have the same.
//
// Workers share the cores of this node: OMP_NUM_THREADS is set, where it is
// not.
LaunchPlan PlanProcesses(const JobLayout& layout,
                         const v1::LaunchConfig& config,
                         const cluster::EnvironmentMap& environment,
                         int num_cores);

// `process`, a server, takes a descriptor of the launcher's that listens
// already.
void InheritListener(ProcessPlan* process, int descriptor);

// The job's name: --job_id, else the environment's, else "default".
std::string JobIdOf(const v1::LaunchConfig& config,
                    const cluster::EnvironmentMap& environment);

// Lines for --print_config: each process, its log and its variables.
std::string DescribePlan(const LaunchPlan& plan);

}  // namespace oarlock::launch

#endif  // OARLOCK_LAUNCH_LAUNCH_PLAN_H_
