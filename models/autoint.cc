#include "models/autoint.h"

#include <cstddef>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "models/model_builder.h"
#include "nn/interaction_layers.h"
#include "nn/layers.h"

namespace oarlock {
namespace {

// ReLU(attention(fields) + fields W).
NodeId Interact(NetworkBuilder& net, const std::string& name,
                const ModelOptions& options, NodeId fields) {
  const size_t width = options.attention_heads * options.attention_size;
  const NodeId qkv = net.Add(
      name + "_qkv", NewRowLinear({.num_outputs = 3 * width}), {fields});
  const NodeId attention =
      net.Add(name, NewSelfAttention({options.attention_heads}), {qkv});
  const NodeId residual = net.Add(
      name + "_residual", NewRowLinear({.num_outputs = width}), {fields});
  const NodeId sum = net.Add(name + "_sum", NewAdd(), {attention, residual});
  return net.Add(name + "_relu", NewRelu(), {sum});
}

}  // namespace

absl::StatusOr<std::unique_ptr<Model>> NewAutoIntModel(
    const ModelOptions& options) {
  ModelBuilder model(options, {});
  NodeId fields = model.Fields();
  for (size_t i = 0; i < options.attention_layers; ++i) {
    fields = Interact(model.net(), absl::StrCat("attention", i + 1), options,
                      fields);
  }
  std::vector<NodeId> terms = {model.One("out", fields, /*bias=*/true)};
  if (options.hidden_sizes.has_value()) {
    const NodeId hidden = model.Hidden(model.Features(), {});
    terms.push_back(model.One("deep_out", hidden, /*bias=*/false));
  }
  return model.BuildSigmoid("autoint", terms);
}

}  // namespace oarlock
