#include "models/deepfm.h"

#include <vector>

#include "models/model_builder.h"
#include "nn/layers.h"

namespace oarlock {

absl::StatusOr<std::unique_ptr<Model>> NewDeepFmModel(
    const ModelOptions& options) {
  RowForm form;
  form.weight = true;
  ModelBuilder model(options, form);
  std::vector<NodeId> terms = model.WeightSums();
  terms.push_back(model.net().Add("second_order", NewFmSecondOrder(),
                                  {model.Vectors()[0]}));
  if (const std::optional<NodeId> dense = model.DenseLinear()) {
    terms.push_back(*dense);
  }
  const NodeId hidden = model.Hidden(model.Features(), {128, 64});
  terms.push_back(model.One("out", hidden, /*bias=*/true));
  return model.BuildSigmoid("deepfm", terms);
}

}  // namespace oarlock
