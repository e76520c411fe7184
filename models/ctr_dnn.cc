#include "models/ctr_dnn.h"

#include "models/model_builder.h"
#include "nn/layers.h"

namespace oarlock {

absl::StatusOr<std::unique_ptr<Model>> NewCtrDnnModel(
    const ModelOptions& options) {
  RowForm form;
  form.many_sizes = true;
  ModelBuilder model(options, form);
  const NodeId hidden = model.Hidden(model.Features(), {400, 400, 400});
  LinearOptions out;
  out.num_outputs = 2;
  const NodeId logits = model.net().Add("out", NewLinear(out), {hidden});
  return model.Build(
      "ctr_dnn", model.net().Add("loss", NewSoftmaxCrossEntropy(), {logits}));
}

}  // namespace oarlock
