// The job's options of the optimizer, as the servers want to hear of them.

#ifndef OARLOCK_WORKER_CONFIG_OPTIMIZER_CONFIG_H_
#define OARLOCK_WORKER_CONFIG_OPTIMIZER_CONFIG_H_

#include <cstdint>

#include "absl/status/statusor.h"
#include "proto/config/job_config.pb.h"
#include "proto/v1/table.pb.h"

namespace oarlock::worker {

// kReplica is no table: parameters that every rank of a collective job keeps
// and updates by itself (optim/dense_optimizer.h).
enum class TableKind { kSparse, kDense, kReplica };

// The same on every worker. InvalidArgument when options contradict each
// other, or no servers would accept them.
//
// Rules whose state is shared by the weights of a row are for rows. The floats
// of a dense block lie together for placement only, so dense tables get the
// rule of the same family that shares nothing: shared_adagrad becomes adagrad,
// shared_adam adam, and paddle_adagrad, paddle_adagrad_v2 and
// paddle_shared_adam become paddle_std_adagrad, adagrad and paddle_adam.
// Replicas get the same, so that a job means the same with servers and without;
// lars, which is for whole parameters, is for them alone. Their step is one
// update, whatever `num_workers`.
absl::StatusOr<v1::OptimizerConfig> OptimizerOf(const v1::JobConfig& config,
                                                uint32_t num_workers,
                                                TableKind kind);

}  // namespace oarlock::worker

#endif  // OARLOCK_WORKER_CONFIG_OPTIMIZER_CONFIG_H_
