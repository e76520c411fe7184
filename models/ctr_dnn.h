// CTR-DNN, "ctr_dnn", the network of PaddlePaddle Fleet's examples/ctr: the
// embeddings of the slots and the dense features are concatenated. Hidden
// layers with ReLU (400, 400, 400) follow, then two outputs with softmax and
// cross entropy. Weights start Normal(1 / sqrt(inputs)), biases at 0, rows
// uniform in +-init_range. All slots share one table.

#ifndef OARLOCK_MODELS_CTR_DNN_H_
#define OARLOCK_MODELS_CTR_DNN_H_

#include <memory>

#include "absl/status/statusor.h"
#include "models/model.h"

namespace oarlock::models {

absl::StatusOr<std::unique_ptr<Model>> NewCtrDnnModel(
    const ModelOptions& options);

}  // namespace oarlock::models

#endif  // OARLOCK_MODELS_CTR_DNN_H_
