// DLRM, "dlrm" (Naumov et al., Deep Learning Recommendation Model for
// Personalization and Recommendation Systems, 2019): probability =
// sigmoid(top).
//   bottom  layers of 64 and k = embedding_size with ReLU over the
//           dense features
//   dots    the inner products of all pairs of the slots' vectors (rows of
//           k floats) and the bottom's output
//   top     hidden layers (128, 64) with ReLU over the bottom's output and the
//           dots, then one output
// Without dense features there is no bottom. A single slot without a bottom has
// no pair and is an InvalidArgument. Rows start uniform in +-init_range,
// weights Normal(1 / sqrt(inputs)), biases at 0.

#ifndef OARLOCK_MODELS_DLRM_H_
#define OARLOCK_MODELS_DLRM_H_

#include <memory>

#include "absl/status/statusor.h"
#include "models/model.h"

namespace oarlock::models {

absl::StatusOr<std::unique_ptr<Model>> NewDlrmModel(
    const ModelOptions& options);

}  // namespace oarlock::models

#endif  // OARLOCK_MODELS_DLRM_H_
