#include "models/factorization_machines.h"

#include <vector>

#include "absl/status/status.h"
#include "models/model_builder.h"
#include "nn/interaction_layers.h"
#include "nn/layers.h"

namespace oarlock::models {
namespace {

// The model with the sum of the first order, `second_order` and the bias.
absl::StatusOr<std::unique_ptr<Model>> Finish(const std::string& name,
                                              ModelBuilder& model,
                                              std::vector<nn::NodeId> terms,
                                              nn::NodeId second_order) {
  terms.push_back(second_order);
  if (const std::optional<nn::NodeId> dense = model.DenseLinear()) {
    terms.push_back(*dense);
  }
  const nn::NodeId sum = model.net().Add("orders", nn::NewAdd(), terms);
  return model.BuildSigmoid(name,
                            {model.net().Add("bias", nn::NewBias(), {sum})});
}

}  // namespace

absl::StatusOr<std::unique_ptr<Model>> NewFmModel(const ModelOptions& options) {
  RowForm form;
  form.weight = true;
  ModelBuilder model(options, form);
  const std::vector<nn::NodeId> weights = model.WeightSums();
  const nn::NodeId fields = model.Fields();
  std::vector<nn::NodeId> terms = weights;
  if (const auto pairs = model.PairsInSlots()) terms.push_back(*pairs);
  return Finish(
      "fm", model, terms,
      model.net().Add("second_order", nn::NewFmSecondOrder(), {fields}));
}

absl::StatusOr<std::unique_ptr<Model>> NewFfmModel(
    const ModelOptions& options) {
  if (options.num_slots < 2) {
    return absl::InvalidArgumentError(
        "model \"ffm\" multiplies vectors of pairs of slots and got 1 slot; "
        "legal are 2 or more: give it data with several (libsvm has one), or "
        "choose another model");
  }
  RowForm form;
  form.weight = true;
  form.vectors = options.num_slots;
  ModelBuilder model(options, form);
  const std::vector<nn::NodeId> weights = model.WeightSums();
  const nn::NodeId vectors = model.Vectors()[0];
  return Finish(
      "ffm", model, weights,
      model.net().Add("second_order", nn::NewFieldAwareFm(), {vectors}));
}

}  // namespace oarlock::models
