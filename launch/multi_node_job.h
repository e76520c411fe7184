// One node's part in a job whose nodes meet at --master: attempt by attempt,
// what Launcher does for a job that its flags describe.

#ifndef OARLOCK_LAUNCH_MULTI_NODE_JOB_H_
#define OARLOCK_LAUNCH_MULTI_NODE_JOB_H_

#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "cluster/environment.h"
#include "launch/launcher.h"
#include "launch/machine.h"
#include "proto/config/launch_config.pb.h"
#include "proto/config/rendezvous_config.pb.h"

namespace oarlock::launch {

// Sets the variables of the environment that stand for flags of security which
// are given: the processes have what their launcher has.
void AddSecurity(const v1::RendezvousConfig& rendezvous,
                 cluster::EnvironmentMap* environment);

// Runs `argv` as the processes of this node in every attempt. Node 0, which is
// the one with --rank 0, or of those without --rank the first that can listen
// at --master, serves the rendezvous until all nodes have heard how it ended.
//
// Returns the exit code: that of Launcher::Run; 1 when the job failed on
// another node. Errors as ShareOfNode, LayOutNodes, NodeRendezvousServer::Start
// and NodeRendezvousClient::Join, and Launcher::Run's; no process runs then.
//
// REQUIRES: UsesRendezvous(config).
absl::StatusOr<int> RunMultiNodeJob(const v1::LaunchConfig& config,
                                    const v1::RendezvousConfig& rendezvous,
                                    const cluster::EnvironmentMap& environment,
                                    const std::vector<std::string>& argv,
                                    const LauncherOptions& options = {},
                                    const Machine& machine = {});

}  // namespace oarlock::launch

#endif  // OARLOCK_LAUNCH_MULTI_NODE_JOB_H_
