#include "worker/models/deepfm.h"

#include <vector>

#include "worker/models/network_model.h"
#include "worker/nn/layers.h"
#include "worker/nn/network.h"

namespace oarlock {

absl::StatusOr<std::unique_ptr<Model>> NewDeepFmModel(
    const ModelOptions& options) {
  const size_t dim = options.embedding_size;
  const size_t row_dim = 1 + dim;
  NetworkBuilder net;
  const NodeId weights = net.Add("embedding_weight",
                                 NewEmbedding({.num_slots = options.num_slots,
                                               .row_dim = row_dim,
                                               .column_begin = 0,
                                               .width = 1}),
                                 {});
  const NodeId vectors = net.Add("embedding_vector",
                                 NewEmbedding({.num_slots = options.num_slots,
                                               .row_dim = row_dim,
                                               .column_begin = 1,
                                               .width = dim}),
                                 {});
  std::vector<NodeId> terms;
  terms.push_back(net.Add("first_order", NewSumColumns(), {weights}));
  terms.push_back(net.Add("second_order", NewFmSecondOrder(), {vectors}));
  NodeId features = vectors;
  if (options.num_dense > 0) {
    const NodeId dense =
        net.Add("dense", NewDenseInput({options.num_dense}), {});
    LinearOptions linear;
    linear.num_outputs = 1;
    linear.bias = false;
    linear.weight_start = WeightStart::kZero;
    terms.push_back(net.Add("linear", NewLinear(linear), {dense}));
    features = net.Add("features", NewConcat(), {vectors, dense});
  }
  const NodeId hidden = AddHiddenLayers(
      net, features,
      options.hidden_sizes.value_or(std::vector<size_t>{128, 64}));
  LinearOptions out;
  out.num_outputs = 1;
  terms.push_back(net.Add("out", NewLinear(out), {hidden}));
  const NodeId logit = net.Add("sum", NewAdd(), terms);
  const NodeId loss = net.Add("loss", NewSigmoidCrossEntropy(), {logit});
  const ParameterInit init = {ParameterInit::Kind::kUniform,
                              options.init_range};
  return BuildModel("deepfm", options, {AllSlots(options, row_dim, init)}, net,
                    loss);
}

}  // namespace oarlock
