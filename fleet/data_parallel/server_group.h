// The workers of a job with parameter servers, which train in sync rounds.

#ifndef OARLOCK_FLEET_DATA_PARALLEL_SERVER_GROUP_H_
#define OARLOCK_FLEET_DATA_PARALLEL_SERVER_GROUP_H_

#include <memory>

#include "absl/status/statusor.h"
#include "cluster/environment.h"
#include "fleet/data_parallel/worker_group.h"
#include "proto/config/job_config.pb.h"

namespace oarlock {

// Connects to the servers and registers. REQUIRES: the role of a worker.
// A table given to NewExchange lies on the servers; its optimizer is applied
// there, once a round.
absl::StatusOr<std::unique_ptr<WorkerGroup>> JoinServerGroup(
    const v1::JobConfig& config, const cluster::RoleAssignment& role,
    const DistributedStrategy& strategy);

}  // namespace oarlock

#endif  // OARLOCK_FLEET_DATA_PARALLEL_SERVER_GROUP_H_
