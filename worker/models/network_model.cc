#include "worker/models/network_model.h"

#include <numeric>
#include <utility>

#include "absl/strings/str_cat.h"
#include "base/check.h"
#include "base/status_macros.h"
#include "worker/nn/backends.h"
#include "worker/nn/layers.h"
#include "worker/nn/workspace.h"

namespace oarlock {
namespace {

class NetworkExecutor final : public ModelExecutor {
 public:
  NetworkExecutor(const Network& network, std::unique_ptr<MathBackend> math,
                  size_t max_examples)
      : workspace_(network, std::move(math), max_examples) {}
  void Predict(const StepInput& input, StepOutput* output) override {
    workspace_.Forward(input, output);
  }
  void Step(const StepInput& input, StepOutput* output) override {
    workspace_.Forward(input, output);
    workspace_.Backward(output);
  }

 private:
  Workspace workspace_;
};

class NetworkModel final : public Model {
 public:
  NetworkModel(ModelSpec spec, std::string math_backend,
               std::unique_ptr<const Network> network)
      : spec_(std::move(spec)),
        math_backend_(std::move(math_backend)),
        network_(std::move(network)) {}
  const ModelSpec& spec() const override { return spec_; }
  const Network* network() const override { return network_.get(); }
  std::unique_ptr<ModelExecutor> NewExecutor(
      size_t max_examples) const override {
    absl::StatusOr<std::unique_ptr<MathBackend>> math =
        NewMathBackend(math_backend_);
    OARLOCK_CHECK(math.ok());  // BuildModel has tried it
    return std::make_unique<NetworkExecutor>(*network_, *std::move(math),
                                             max_examples);
  }

 private:
  const ModelSpec spec_;
  const std::string math_backend_;
  const std::unique_ptr<const Network> network_;
};

}  // namespace

SparseInputSpec AllSlots(const ModelOptions& options, size_t row_dim,
                         ParameterInit init) {
  SparseInputSpec spec;
  spec.table = "embedding";
  spec.row_dim = row_dim;
  spec.init = init;
  spec.slots.resize(options.num_slots);
  std::iota(spec.slots.begin(), spec.slots.end(), 0);
  return spec;
}

NodeId AddHiddenLayers(NetworkBuilder& builder, NodeId input,
                       const std::vector<size_t>& sizes) {
  for (size_t i = 0; i < sizes.size(); ++i) {
    LinearOptions options;
    options.num_outputs = sizes[i];
    options.activation = Activation::kRelu;
    input = builder.Add(absl::StrCat("fc", i + 1), NewLinear(options), {input});
  }
  return input;
}

absl::StatusOr<std::unique_ptr<Model>> BuildModel(
    const std::string& name, const ModelOptions& options,
    std::vector<SparseInputSpec> sparse_inputs, NetworkBuilder& builder,
    NodeId prediction) {
  OARLOCK_RETURN_IF_ERROR(NewMathBackend(options.math_backend).status());
  absl::StatusOr<std::unique_ptr<Network>> network = builder.Build(prediction);
  if (!network.ok()) return Annotate(network.status(), name);
  ModelSpec spec;
  spec.name = name;
  spec.num_dense = options.num_dense;
  spec.num_slots = options.num_slots;
  spec.sparse_inputs = std::move(sparse_inputs);
  spec.parameters = (*network)->parameters();
  spec.num_parameters = (*network)->num_parameters();
  return std::make_unique<NetworkModel>(std::move(spec), options.math_backend,
                                        *std::move(network));
}

}  // namespace oarlock
