// AutoInt, "autoint" (Song et al., AutoInt: Automatic Feature Interaction
// Learning via Self-Attentive Neural Networks, 2019): probability = sigmoid(out
// . fields + bias). The fields are the vectors of the slots (rows of
// embedding_size floats) and, for each dense feature, the number times a
// trained vector of its own. The network applies, attention_layers (2) times,
//   fields = ReLU(multi-head self-attention(fields) + fields W)
// with attention_heads (2) heads of attention_size (8) floats. Scores are
// scaled by 1 / sqrt(attention_size), which the paper does not do. With
// hidden_sizes it is the paper's AutoInt+: it also has hidden layers over the
// vectors and dense features.

#ifndef OARLOCK_MODELS_AUTOINT_H_
#define OARLOCK_MODELS_AUTOINT_H_

#include <memory>

#include "absl/status/statusor.h"
#include "models/model.h"

namespace oarlock::models {

absl::StatusOr<std::unique_ptr<Model>> NewAutoIntModel(
    const ModelOptions& options);

}  // namespace oarlock::models

#endif  // OARLOCK_MODELS_AUTOINT_H_
