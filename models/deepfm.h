// DeepFM, "deepfm" (Guo et al., 2017): probability = sigmoid(bias + first order
// + second order + deep). Each key's row is [w, v_1 ... v_k] with k =
// embedding_size, so that one pull fetches both orders:
//   first order   the sum of the w of the keys + dense . weight
//   second order  the sum of v . v' over all pairs of slots
//   deep          hidden layers with ReLU over the v of all slots and the
//                 dense features, then one output
// The whole row, including w, starts uniform in +-init_range. The first-order
// dense weights and all biases start at 0, the deep weights Normal(1 /
// sqrt(inputs)).
//
// The hidden layers are (128, 64): on Criteo rows they are as good as
// (400, 400, 400), vary less from seed to seed and need a tenth of the
// multiplications.

#ifndef OARLOCK_MODELS_DEEPFM_H_
#define OARLOCK_MODELS_DEEPFM_H_

#include <memory>

#include "absl/status/statusor.h"
#include "models/model.h"

namespace oarlock::models {

absl::StatusOr<std::unique_ptr<Model>> NewDeepFmModel(
    const ModelOptions& options);

}  // namespace oarlock::models

#endif  // OARLOCK_MODELS_DEEPFM_H_
