// The model that a job's configuration names.

#ifndef OARLOCK_WORKER_MODEL_OF_H_
#define OARLOCK_WORKER_MODEL_OF_H_

#include <memory>

#include "absl/status/statusor.h"
#include "proto/job_config.pb.h"
#include "worker/data/batch.h"
#include "worker/models/model.h"

namespace oarlock {

// Its options for examples of `schema`. InvalidArgument names the flag whose
// list is malformed, and what is legal.
absl::StatusOr<ModelOptions> ModelOptionsOf(const v1::JobConfig& config,
                                            const DataSchema& schema);

// The same as a model, with its gradients clipped as the flags say.
absl::StatusOr<std::unique_ptr<Model>> ModelOf(const v1::JobConfig& config,
                                               const DataSchema& schema);

}  // namespace oarlock

#endif  // OARLOCK_WORKER_MODEL_OF_H_
