#include "models/wide_deep.h"

#include <vector>

#include "models/model_builder.h"

namespace oarlock::models {

absl::StatusOr<std::unique_ptr<Model>> NewWideDeepModel(
    const ModelOptions& options) {
  RowForm form;
  form.weight = true;
  form.many_sizes = true;
  ModelBuilder model(options, form);
  std::vector<nn::NodeId> terms = model.WeightSums();
  if (const std::optional<nn::NodeId> dense = model.DenseLinear()) {
    terms.push_back(*dense);
  }
  const nn::NodeId hidden = model.Hidden(model.Features(), {128, 64});
  terms.push_back(model.One("out", hidden, /*bias=*/true));
  return model.BuildSigmoid("wide_deep", terms);
}

}  // namespace oarlock::models
