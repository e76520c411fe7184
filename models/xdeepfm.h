// xDeepFM, "xdeepfm" (Lian et al., 2018): probability = sigmoid(bias + first
// order + cin + deep). Each key's row is [w, v_1 ... v_k], k = embedding_size;
// a dense feature has a weight and a vector of its own, which are multiplied by
// its number.
//   first order  the sum of the w of the keys + dense . weight
//   cin          compressed interaction network over the m vectors X0 of
//                all slots and dense features: layers of cin_sizes feature
//                maps (16, 16), without activation,
//                X_l[h] = sum_{i,j} W_l[h,i,j] X_{l-1}[i] * X0[j], number by
//                number; then one weight for the sum of each map
//   deep         hidden layers (128, 64) with ReLU over the v of all slots
//                and the dense features

#ifndef OARLOCK_MODELS_XDEEPFM_H_
#define OARLOCK_MODELS_XDEEPFM_H_

#include <memory>

#include "absl/status/statusor.h"
#include "models/model.h"

namespace oarlock::models {

absl::StatusOr<std::unique_ptr<Model>> NewXDeepFmModel(
    const ModelOptions& options);

}  // namespace oarlock::models

#endif  // OARLOCK_MODELS_XDEEPFM_H_
