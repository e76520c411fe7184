#include "models/dlrm.h"

#include <cstddef>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "models/model_builder.h"
#include "nn/interaction_layers.h"
#include "nn/layers.h"

namespace oarlock::models {

absl::StatusOr<std::unique_ptr<Model>> NewDlrmModel(
    const ModelOptions& options) {
  if (options.num_slots == 1 && options.num_dense == 0) {
    return absl::InvalidArgumentError(
        "model \"dlrm\" multiplies vectors in pairs and got 1 slot without "
        "dense features; legal are 2 slots or more, or dense features: give it "
        "data that has them, or choose another model");
  }
  ModelBuilder model(options, {});
  nn::NetworkBuilder& net = model.net();
  const size_t width = options.embedding_size;
  nn::NodeId vectors = model.Vectors()[0];
  std::vector<nn::NodeId> top;
  if (std::optional<nn::NodeId> bottom = model.Dense()) {
    const size_t sizes[] = {64, width};
    for (size_t i = 0; i < 2; ++i) {
      nn::LinearOptions linear;
      linear.num_outputs = sizes[i];
      linear.activation = nn::Activation::kRelu;
      bottom = net.Add(absl::StrCat("bottom", i + 1), nn::NewLinear(linear),
                       {*bottom});
    }
    top.push_back(*bottom);
    vectors = net.Add("all_vectors", nn::NewConcat(), {vectors, *bottom});
  }
  top.push_back(net.Add("dots", nn::NewPairwiseDots({width}), {vectors}));
  const nn::NodeId features =
      top.size() == 1 ? top[0] : net.Add("features", nn::NewConcat(), top);
  const nn::NodeId hidden = model.Hidden(features, {128, 64});
  return model.BuildSigmoid("dlrm", {model.One("out", hidden, /*bias=*/true)});
}

}  // namespace oarlock::models
