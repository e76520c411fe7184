#include "models/cross_networks.h"

#include <cstddef>
#include <string>

#include "absl/functional/function_ref.h"
#include "absl/strings/str_cat.h"
#include "models/model_builder.h"
#include "nn/interaction_layers.h"
#include "nn/layers.h"

namespace oarlock::models {
namespace {

// Applies `layer`(its name, x0, x) cross_layers times, in parallel to the
// hidden layers.
absl::StatusOr<std::unique_ptr<Model>> CrossNetwork(
    const std::string& name, const ModelOptions& options,
    absl::FunctionRef<nn::NodeId(nn::NetworkBuilder& net,
                                 const std::string& name, nn::NodeId x0,
                                 nn::NodeId x)>
        layer) {
  RowForm form;
  form.many_sizes = true;
  ModelBuilder model(options, form);
  const nn::NodeId x0 = model.Features();
  nn::NodeId x = x0;
  for (size_t i = 0; i < options.cross_layers; ++i) {
    x = layer(model.net(), absl::StrCat("cross", i + 1), x0, x);
  }
  const nn::NodeId hidden = model.Hidden(x0, {128, 64});
  const nn::NodeId both = model.net().Add("both", nn::NewConcat(), {x, hidden});
  return model.BuildSigmoid(name, {model.One("out", both, /*bias=*/true)});
}

}  // namespace

absl::StatusOr<std::unique_ptr<Model>> NewDcnModel(
    const ModelOptions& options) {
  return CrossNetwork("dcn", options,
                      [](nn::NetworkBuilder& net, const std::string& name,
                         nn::NodeId x0, nn::NodeId x) {
                        nn::LinearOptions weight;
                        weight.num_outputs = 1;
                        weight.bias = false;
                        const nn::NodeId dot =
                            net.Add(name + "_dot", nn::NewLinear(weight), {x});
                        const nn::NodeId y = net.Add(
                            name + "_product", nn::NewCross(), {x0, dot, x});
                        return net.Add(name, nn::NewBias(), {y});
                      });
}

absl::StatusOr<std::unique_ptr<Model>> NewDcnV2Model(
    const ModelOptions& options) {
  // x0 has this many floats.
  size_t size = options.num_dense;
  for (size_t slot = 0; slot < options.num_slots; ++slot) {
    const auto own = options.slot_sizes.find(static_cast<int>(slot));
    size +=
        own == options.slot_sizes.end() ? options.embedding_size : own->second;
  }
  return CrossNetwork("dcn_v2", options,
                      [&](nn::NetworkBuilder& net, const std::string& name,
                          nn::NodeId x0, nn::NodeId x) {
                        nn::LinearOptions matrix;
                        matrix.num_outputs = size;
                        const nn::NodeId product = net.Add(
                            name + "_matrix", nn::NewLinear(matrix), {x});
                        // The product is flat even where the features are one
                        // tensor of slots.
                        return net.Add(name, nn::NewCross(), {x0, product, x});
                      });
}

}  // namespace oarlock::models
