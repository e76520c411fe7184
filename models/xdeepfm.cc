#include "models/xdeepfm.h"

#include <cstddef>
#include <vector>

#include "absl/strings/str_cat.h"
#include "models/model_builder.h"
#include "nn/interaction_layers.h"
#include "nn/layers.h"

namespace oarlock {

absl::StatusOr<std::unique_ptr<Model>> NewXDeepFmModel(
    const ModelOptions& options) {
  RowForm form;
  form.weight = true;
  ModelBuilder model(options, form);
  NetworkBuilder& net = model.net();
  std::vector<NodeId> terms = model.WeightSums();
  if (const std::optional<NodeId> dense = model.DenseLinear()) {
    terms.push_back(*dense);
  }
  const NodeId x0 = net.Add("cin0", NewTranspose(), {model.Fields()});
  NodeId x = x0;
  std::vector<NodeId> sums;
  for (size_t i = 0; i < options.cin_sizes.size(); ++i) {
    const std::string name = absl::StrCat("cin", i + 1);
    x = net.Add(name, NewCompressedInteraction({options.cin_sizes[i]}),
                {x, x0});
    sums.push_back(net.Add(name + "_sums", NewSumRows(), {x}));
  }
  const NodeId maps = net.Add("cin_maps", NewConcat(), sums);
  terms.push_back(model.One("cin_out", maps, /*bias=*/false));
  const NodeId hidden = model.Hidden(model.Features(), {128, 64});
  terms.push_back(model.One("out", hidden, /*bias=*/true));
  return model.BuildSigmoid("xdeepfm", terms);
}

}  // namespace oarlock
