#include "models/xdeepfm.h"

#include <cstddef>
#include <vector>

#include "absl/strings/str_cat.h"
#include "models/model_builder.h"
#include "nn/interaction_layers.h"
#include "nn/layers.h"

namespace oarlock::models {

absl::StatusOr<std::unique_ptr<Model>> NewXDeepFmModel(
    const ModelOptions& options) {
  RowForm form;
  form.weight = true;
  ModelBuilder model(options, form);
  nn::NetworkBuilder& net = model.net();
  std::vector<nn::NodeId> terms = model.WeightSums();
  if (const std::optional<nn::NodeId> dense = model.DenseLinear()) {
    terms.push_back(*dense);
  }
  const nn::NodeId x0 = net.Add("cin0", nn::NewTranspose(), {model.Fields()});
  nn::NodeId x = x0;
  std::vector<nn::NodeId> sums;
  for (size_t i = 0; i < options.cin_sizes.size(); ++i) {
    const std::string name = absl::StrCat("cin", i + 1);
    x = net.Add(name, nn::NewCompressedInteraction({options.cin_sizes[i]}),
                {x, x0});
    sums.push_back(net.Add(name + "_sums", nn::NewSumRows(), {x}));
  }
  const nn::NodeId maps = net.Add("cin_maps", nn::NewConcat(), sums);
  terms.push_back(model.One("cin_out", maps, /*bias=*/false));
  const nn::NodeId hidden = model.Hidden(model.Features(), {128, 64});
  terms.push_back(model.One("out", hidden, /*bias=*/true));
  return model.BuildSigmoid("xdeepfm", terms);
}

}  // namespace oarlock::models
