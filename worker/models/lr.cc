#include "worker/models/lr.h"

#include "worker/models/network_model.h"
#include "worker/nn/layers.h"
#include "worker/nn/network.h"

namespace oarlock {

absl::StatusOr<std::unique_ptr<Model>> NewLrModel(const ModelOptions& options) {
  NetworkBuilder net;
  const NodeId rows = net.Add(
      "embedding",
      NewEmbedding({.num_slots = options.num_slots, .row_dim = 1, .width = 1}),
      {});
  NodeId logit = net.Add("sparse_sum", NewSumColumns(), {rows});
  if (options.num_dense > 0) {
    const NodeId dense =
        net.Add("dense", NewDenseInput({options.num_dense}), {});
    LinearOptions linear;
    linear.num_outputs = 1;
    linear.bias = false;
    linear.weight_start = WeightStart::kZero;
    const NodeId dense_sum = net.Add("linear", NewLinear(linear), {dense});
    logit = net.Add("sum", NewAdd(), {logit, dense_sum});
  }
  logit = net.Add("bias", NewBias(), {logit});
  const NodeId loss = net.Add("loss", NewSigmoidCrossEntropy(), {logit});
  return BuildModel("lr", options, {AllSlots(options, 1, {})}, net, loss);
}

}  // namespace oarlock
