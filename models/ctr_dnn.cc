#include "models/ctr_dnn.h"

#include "models/model_builder.h"
#include "nn/layers.h"

namespace oarlock::models {

absl::StatusOr<std::unique_ptr<Model>> NewCtrDnnModel(
    const ModelOptions& options) {
  RowForm form;
  form.many_sizes = true;
  ModelBuilder model(options, form);
  const nn::NodeId hidden = model.Hidden(model.Features(), {400, 400, 400});
  nn::LinearOptions out;
  out.num_outputs = 2;
  const nn::NodeId logits =
      model.net().Add("out", nn::NewLinear(out), {hidden});
  return model.Build(
      "ctr_dnn",
      model.net().Add("loss", nn::NewSoftmaxCrossEntropy(), {logits}));
}

}  // namespace oarlock::models
