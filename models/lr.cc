#include "models/lr.h"

#include "models/model_builder.h"
#include "nn/layers.h"

namespace oarlock::models {

absl::StatusOr<std::unique_ptr<Model>> NewLrModel(const ModelOptions& options) {
  RowForm form;
  form.weight = true;
  form.vectors = 0;
  form.starts_at_zero = true;
  ModelBuilder model(options, form);
  nn::NodeId logit = model.WeightSums()[0];
  if (const std::optional<nn::NodeId> dense = model.DenseLinear()) {
    logit = model.net().Add("sum", nn::NewAdd(), {logit, *dense});
  }
  logit = model.net().Add("bias", nn::NewBias(), {logit});
  return model.BuildSigmoid("lr", {logit});
}

}  // namespace oarlock::models
