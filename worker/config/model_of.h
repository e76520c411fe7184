// The model that a job's configuration names.

#ifndef OARLOCK_WORKER_CONFIG_MODEL_OF_H_
#define OARLOCK_WORKER_CONFIG_MODEL_OF_H_

#include <memory>
#include <string>

#include "absl/status/statusor.h"
#include "data/batch.h"
#include "models/model.h"
#include "proto/config/job_config.pb.h"

namespace oarlock::worker {

// Its options for examples of `schema`, but who computes: that is the machine's
// business too (nn/backends/device_choice.h). InvalidArgument names the flag
// whose list is malformed, and what is legal.
absl::StatusOr<models::ModelOptions> ModelOptionsOf(
    const v1::JobConfig& config, const data::DataSchema& schema);

// The same as a model that `math_backend` computes, with its gradients clipped
// as the flags say. The default will do for whoever wants the model's shape.
absl::StatusOr<std::unique_ptr<models::Model>> ModelOf(
    const v1::JobConfig& config, const data::DataSchema& schema,
    const std::string& math_backend = models::ModelOptions().math_backend);

}  // namespace oarlock::worker

#endif  // OARLOCK_WORKER_CONFIG_MODEL_OF_H_
