// From a process's role to its group.

#ifndef OARLOCK_FLEET_DATA_PARALLEL_JOIN_WORKERS_H_
#define OARLOCK_FLEET_DATA_PARALLEL_JOIN_WORKERS_H_

#include <memory>

#include "absl/status/statusor.h"
#include "cluster/environment.h"
#include "fleet/data_parallel/worker_group.h"
#include "proto/config/job_config.pb.h"

namespace oarlock {

// Starts logging, takes this process's place among the workers of its job, and
// says in the log what it is and why; blocks until all others are there. Of
// `config` it reads who belongs to the job and how long to wait.
// InvalidArgument for the role of a server, and whatever the kind of group
// refuses.
absl::StatusOr<std::unique_ptr<WorkerGroup>> JoinWorkers(
    const v1::JobConfig& config, const cluster::RoleAssignment& role,
    const DistributedStrategy& strategy = {});

}  // namespace oarlock

#endif  // OARLOCK_FLEET_DATA_PARALLEL_JOIN_WORKERS_H_
