// Logistic regression, "lr": probability = sigmoid(bias + the sum of the
// weights of the keys + dense . weight). Rows have one float; all weights start
// at 0. Parameters: linear/weight [num_dense, 1] (if there is any dense
// feature), bias/bias [1].

#ifndef OARLOCK_MODELS_LR_H_
#define OARLOCK_MODELS_LR_H_

#include <memory>

#include "absl/status/statusor.h"
#include "models/model.h"

namespace oarlock::models {

absl::StatusOr<std::unique_ptr<Model>> NewLrModel(const ModelOptions& options);

}  // namespace oarlock::models

#endif  // OARLOCK_MODELS_LR_H_
