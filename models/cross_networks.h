// Deep & Cross networks: probability = sigmoid(out . [cross, deep] + bias),
// with x0 the vectors of all slots and the dense features, flat.
//   "dcn" (Wang et al., Deep & Cross Network for Ad Click Predictions, 2017):
//     x_{l+1} = x0 (x_l . w_l) + b_l + x_l
//   "dcn_v2" (Wang et al., DCN V2, 2020), with full matrices:
//     x_{l+1} = x0 * (W_l x_l + b_l) + x_l, number by number
//   deep: hidden layers with ReLU over x0, in parallel to the cross layers
// There are cross_layers (3) cross layers; the hidden layers are (128, 64).
// Rows start uniform in +-init_range, weights Normal(1 / sqrt(inputs)), biases
// at 0.

#ifndef OARLOCK_MODELS_CROSS_NETWORKS_H_
#define OARLOCK_MODELS_CROSS_NETWORKS_H_

#include <memory>

#include "absl/status/statusor.h"
#include "models/model.h"

namespace oarlock::models {

absl::StatusOr<std::unique_ptr<Model>> NewDcnModel(const ModelOptions& options);
absl::StatusOr<std::unique_ptr<Model>> NewDcnV2Model(
    const ModelOptions& options);

}  // namespace oarlock::models

#endif  // OARLOCK_MODELS_CROSS_NETWORKS_H_
