#include "models/factorization_machines.h"

#include <vector>

#include "models/model_builder.h"
#include "nn/interaction_layers.h"
#include "nn/layers.h"

namespace oarlock {
namespace {

// First order, `second_order` and the bias.
absl::StatusOr<std::unique_ptr<Model>> Finish(const std::string& name,
                                              ModelBuilder& model,
                                              std::vector<NodeId> terms,
                                              NodeId second_order) {
  terms.push_back(second_order);
  if (const std::optional<NodeId> dense = model.DenseLinear()) {
    terms.push_back(*dense);
  }
  const NodeId sum = model.net().Add("orders", NewAdd(), terms);
  return model.BuildSigmoid(name, {model.net().Add("bias", NewBias(), {sum})});
}

}  // namespace

absl::StatusOr<std::unique_ptr<Model>> NewFmModel(const ModelOptions& options) {
  RowForm form;
  form.weight = true;
  ModelBuilder model(options, form);
  const std::vector<NodeId> weights = model.WeightSums();
  const NodeId fields = model.Fields();
  return Finish("fm", model, weights,
                model.net().Add("second_order", NewFmSecondOrder(), {fields}));
}

absl::StatusOr<std::unique_ptr<Model>> NewFfmModel(
    const ModelOptions& options) {
  RowForm form;
  form.weight = true;
  form.vectors = options.num_slots;
  ModelBuilder model(options, form);
  const std::vector<NodeId> weights = model.WeightSums();
  const NodeId vectors = model.Vectors()[0];
  return Finish("ffm", model, weights,
                model.net().Add("second_order", NewFieldAwareFm(), {vectors}));
}

}  // namespace oarlock
