// Wide & Deep, "wide_deep" (Cheng et al., Wide & Deep Learning for Recommender
// Systems, 2016): probability = sigmoid(wide + deep). Each key's row is
// [w, v_1 ... v_k], k = embedding_size:
//   wide  the sum of the w of the keys + dense . weight
//   deep  hidden layers with ReLU over the v of all slots and the
//         dense features, then one output with the bias
// The data must already contain crossed features: a crossed slot is a slot.
// Rows start uniform in +-init_range, the wide dense weights and all biases at
// 0, and the deep weights Normal(1 / sqrt(inputs)). The hidden layers are (128,
// 64).

#ifndef OARLOCK_MODELS_WIDE_DEEP_H_
#define OARLOCK_MODELS_WIDE_DEEP_H_

#include <memory>

#include "absl/status/statusor.h"
#include "models/model.h"

namespace oarlock::models {

absl::StatusOr<std::unique_ptr<Model>> NewWideDeepModel(
    const ModelOptions& options);

}  // namespace oarlock::models

#endif  // OARLOCK_MODELS_WIDE_DEEP_H_
