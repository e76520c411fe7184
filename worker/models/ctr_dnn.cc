#include "worker/models/ctr_dnn.h"

#include <vector>

#include "worker/models/network_model.h"
#include "worker/nn/layers.h"
#include "worker/nn/network.h"

namespace oarlock {

absl::StatusOr<std::unique_ptr<Model>> NewCtrDnnModel(
    const ModelOptions& options) {
  const size_t dim = options.embedding_size;
  NetworkBuilder net;
  NodeId features = net.Add(
      "embedding",
      NewEmbedding(
          {.num_slots = options.num_slots, .row_dim = dim, .width = dim}),
      {});
  if (options.num_dense > 0) {
    const NodeId dense =
        net.Add("dense", NewDenseInput({options.num_dense}), {});
    features = net.Add("features", NewConcat(), {features, dense});
  }
  const NodeId hidden = AddHiddenLayers(
      net, features,
      options.hidden_sizes.value_or(std::vector<size_t>{400, 400, 400}));
  LinearOptions out;
  out.num_outputs = 2;
  const NodeId logits = net.Add("out", NewLinear(out), {hidden});
  const NodeId loss = net.Add("loss", NewSoftmaxCrossEntropy(), {logits});
  const ParameterInit init = {ParameterInit::Kind::kUniform,
                              options.init_range};
  return BuildModel("ctr_dnn", options, {AllSlots(options, dim, init)}, net,
                    loss);
}

}  // namespace oarlock
