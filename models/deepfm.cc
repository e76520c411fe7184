#include "models/deepfm.h"

#include <vector>

#include "models/model_builder.h"
#include "nn/layers.h"

namespace oarlock::models {

absl::StatusOr<std::unique_ptr<Model>> NewDeepFmModel(
    const ModelOptions& options) {
  RowForm form;
  form.weight = true;
  ModelBuilder model(options, form);
  std::vector<nn::NodeId> terms = model.WeightSums();
  terms.push_back(model.net().Add("second_order", nn::NewFmSecondOrder(),
                                  {model.Vectors()[0]}));
  if (const std::optional<nn::NodeId> pairs = model.PairsInSlots()) {
    terms.push_back(*pairs);
  }
  if (const std::optional<nn::NodeId> dense = model.DenseLinear()) {
    terms.push_back(*dense);
  }
  const nn::NodeId hidden = model.Hidden(model.Features(), {128, 64});
  terms.push_back(model.One("out", hidden, /*bias=*/true));
  return model.BuildSigmoid("deepfm", terms);
}

}  // namespace oarlock::models
