// Data-parallel training as PaddlePaddle's Fleet has it, in one header:
//
//   JoinWorkers               fleet.init: this process's place in its job
//   DistributedStrategy       fleet.DistributedStrategy
//   DistributedModel          fleet.distributed_model
//   DistributedOptimizer      fleet.distributed_optimizer
//   DistributedBatchSampler   paddle.io.DistributedBatchSampler
//   SaveReplica, RestoreReplica   checkpoints, to go on from
//
// examples/images/training.cc puts them together; the same program runs alone,
// as a rank of a collective job, and as a worker with parameter servers.

#ifndef OARLOCK_FLEET_DATA_PARALLEL_H_
#define OARLOCK_FLEET_DATA_PARALLEL_H_

// IWYU pragma: begin_exports
#include "data/order/distributed_batch_sampler.h"
#include "fleet/data_parallel/distributed_model.h"
#include "fleet/data_parallel/join_workers.h"
#include "fleet/data_parallel/replica_checkpoint.h"
#include "fleet/data_parallel/worker_group.h"
// IWYU pragma: end_exports

#endif  // OARLOCK_FLEET_DATA_PARALLEL_H_
