#include "models/autoint.h"

#include <cstddef>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "models/model_builder.h"
#include "nn/interaction_layers.h"
#include "nn/layers.h"

namespace oarlock::models {
namespace {

// ReLU(attention(fields) + fields W).
nn::NodeId Interact(nn::NetworkBuilder& net, const std::string& name,
                    const ModelOptions& options, nn::NodeId fields) {
  const size_t width = options.attention_heads * options.attention_size;
  const nn::NodeId qkv = net.Add(
      name + "_qkv", nn::NewRowLinear({.num_outputs = 3 * width}), {fields});
  const nn::NodeId attention =
      net.Add(name, nn::NewSelfAttention({options.attention_heads}), {qkv});
  const nn::NodeId residual = net.Add(
      name + "_residual", nn::NewRowLinear({.num_outputs = width}), {fields});
  const nn::NodeId sum =
      net.Add(name + "_sum", nn::NewAdd(), {attention, residual});
  return net.Add(name + "_relu", nn::NewRelu(), {sum});
}

}  // namespace

absl::StatusOr<std::unique_ptr<Model>> NewAutoIntModel(
    const ModelOptions& options) {
  ModelBuilder model(options, {});
  nn::NodeId fields = model.Fields();
  for (size_t i = 0; i < options.attention_layers; ++i) {
    fields = Interact(model.net(), absl::StrCat("attention", i + 1), options,
                      fields);
  }
  std::vector<nn::NodeId> terms = {model.One("out", fields, /*bias=*/true)};
  if (options.hidden_sizes.has_value()) {
    const nn::NodeId hidden = model.Hidden(model.Features(), {});
    terms.push_back(model.One("deep_out", hidden, /*bias=*/false));
  }
  return model.BuildSigmoid("autoint", terms);
}

}  // namespace oarlock::models
