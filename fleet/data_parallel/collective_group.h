// The ranks of a collective job, and a worker that is alone: a job of one rank.

#ifndef OARLOCK_FLEET_DATA_PARALLEL_COLLECTIVE_GROUP_H_
#define OARLOCK_FLEET_DATA_PARALLEL_COLLECTIVE_GROUP_H_

#include <memory>

#include "absl/status/statusor.h"
#include "cluster/environment.h"
#include "collective/gpu_ring.h"
#include "collective/nccl_ring.h"
#include "fleet/data_parallel/worker_group.h"
#include "proto/config/job_config.pb.h"

namespace oarlock {

// Finds the other ranks. REQUIRES: a collective or a local role.
// NewExchange's optimizer is applied by every rank to its own parameters. Where
// the strategy and the ranks' devices allow NCCL, `new_gpu_ring` calls it,
// which may take the config's connect_timeout_s.
absl::StatusOr<std::unique_ptr<WorkerGroup>> JoinCollectiveGroup(
    const v1::JobConfig& config, const cluster::RoleAssignment& role,
    const DistributedStrategy& strategy,
    collective::GpuRingFactory new_gpu_ring = collective::NewNcclRing);

}  // namespace oarlock

#endif  // OARLOCK_FLEET_DATA_PARALLEL_COLLECTIVE_GROUP_H_
