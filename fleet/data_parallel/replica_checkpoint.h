// Checkpoints of data-parallel training. Of a collective job, or of a worker
// that is alone: one file, since all ranks have the same. With parameter
// servers: what the servers make of their job, so that a training program is
// the same for all.

#ifndef OARLOCK_FLEET_DATA_PARALLEL_REPLICA_CHECKPOINT_H_
#define OARLOCK_FLEET_DATA_PARALLEL_REPLICA_CHECKPOINT_H_

#include <cstdint>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "fleet/data_parallel/distributed_model.h"
#include "fleet/data_parallel/worker_group.h"

namespace oarlock {

// Rank 0 writes parameters, running statistics, optimizer state and that
// `epochs` epochs are done to folder/replica.ckpt, which takes the place of the
// one before as a whole. All ranks call it and return when it is there.
// Nothing is left of an epoch then: see DistributedOptimizer::EndEpoch.
// With parameter servers: they make a checkpoint, wherever they make theirs.
absl::Status SaveReplica(const std::string& folder, uint32_t epochs,
                         WorkerGroup& group, DistributedModel& model,
                         const DistributedOptimizer& optimizer);

// Rank 0 reads it and tells all others; returns the epochs that are done, 0
// without a checkpoint. DataLoss on every rank when it is damaged,
// FailedPrecondition when it is of another network or update rule. A run that
// goes on makes the steps that it would have made without a pause.
// With parameter servers: of the checkpoint from which they went on, which may
// lie in the middle of the next epoch (DistributedOptimizer::BeginEpoch says
// where). FailedPrecondition when they make none, Unimplemented for networks
// with running statistics, which no server has.
absl::StatusOr<uint32_t> RestoreReplica(const std::string& folder,
                                        WorkerGroup& group,
                                        DistributedModel& model,
                                        DistributedOptimizer& optimizer);

}  // namespace oarlock

#endif  // OARLOCK_FLEET_DATA_PARALLEL_REPLICA_CHECKPOINT_H_
