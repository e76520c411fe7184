#include "models/network_model.h"

#include <algorithm>
#include <utility>

#include "base/check.h"
#include "base/status_macros.h"
#include "nn/backends/backends.h"
#include "nn/tensor.h"
#include "nn/workspace.h"

namespace oarlock::models {
namespace {

class NetworkExecutor final : public ModelExecutor {
 public:
  NetworkExecutor(const nn::Network& network,
                  std::unique_ptr<nn::MathBackend> math, size_t max_examples)
      : network_(network),
        workspace_(network, std::move(math), max_examples),
        starts_(network.InitialStatistics()),
        before_(network.num_statistics()),
        statistics_(network.num_statistics()) {}
  void Predict(const nn::StepInput& input, nn::StepOutput* output) override {
    TakeInput(input, /*training=*/false);
    workspace_.Forward(step_, output);
  }
  void Step(const nn::StepInput& input, nn::StepOutput* output) override {
    TakeInput(input, /*training=*/true);
    float* learned = nullptr;
    if (has_statistics()) {
      OARLOCK_CHECK(!output->row_gradients.empty());
      learned = output->row_gradients.back();
      output->row_gradients.pop_back();
    }
    workspace_.Step(step_, output);
    if (has_statistics()) {
      output->row_gradients.push_back(learned);
      PutLearned(input.sparse.back(), learned);
    }
  }

 private:
  bool has_statistics() const { return !statistics_.empty(); }

  // Copies `input` to step_, and reads the statistics from its last sparse
  // input.
  void TakeInput(const nn::StepInput& input, bool training) {
    step_ = input;
    step_.training = training;
    if (!has_statistics()) return;
    OARLOCK_CHECK(!input.sparse.empty());
    step_.sparse.pop_back();
    const nn::SparseInput& learned = input.sparse.back();
    for (size_t i = 0; i < statistics_.size(); ++i) {
      statistics_[i] = starts_[i] + learned.rows[PlaceOf(learned, i)];
    }
    before_ = statistics_;
    step_.statistics = statistics_.data();
  }

  // Writes the change of the statistics, before minus after, as the gradients
  // of the rows.
  void PutLearned(const nn::SparseInput& input, float* gradients) const {
    std::fill_n(gradients, input.num_rows * kStatisticsRow, 0.0f);
    for (size_t i = 0; i < statistics_.size(); ++i) {
      gradients[PlaceOf(input, i)] = before_[i] - statistics_[i];
    }
  }

  static size_t PlaceOf(const nn::SparseInput& input, size_t statistic) {
    return input.row_of_key[statistic / kStatisticsRow] * kStatisticsRow +
           statistic % kStatisticsRow;
  }

  const nn::Network& network_;
  nn::Workspace workspace_;
  nn::StepInput step_;  // reused
  const std::vector<float> starts_;
  // The statistics before and after the step.
  std::vector<float> before_;
  std::vector<float> statistics_;
};

class NetworkModel final : public Model {
 public:
  NetworkModel(ModelSpec spec, std::string math_backend,
               std::unique_ptr<const nn::Network> network)
      : spec_(std::move(spec)),
        math_backend_(std::move(math_backend)),
        network_(std::move(network)) {}
  const ModelSpec& spec() const override { return spec_; }
  const nn::Network* network() const override { return network_.get(); }
  std::unique_ptr<ModelExecutor> NewExecutor(
      size_t max_examples) const override {
    absl::StatusOr<std::unique_ptr<nn::MathBackend>> math =
        nn::NewMathBackend(math_backend_);
    OARLOCK_CHECK(math.ok());  // BuildModel has checked the name
    return std::make_unique<NetworkExecutor>(*network_, *std::move(math),
                                             max_examples);
  }

 private:
  const ModelSpec spec_;
  const std::string math_backend_;
  const std::unique_ptr<const nn::Network> network_;
};

}  // namespace

absl::StatusOr<std::unique_ptr<Model>> BuildModel(
    const std::string& name, const ModelOptions& options,
    std::vector<SparseInputSpec> sparse_inputs, nn::NetworkBuilder& builder,
    nn::NodeId prediction) {
  OARLOCK_RETURN_IF_ERROR(nn::NewMathBackend(options.math_backend).status());
  absl::StatusOr<std::unique_ptr<nn::Network>> network =
      builder.Build(prediction);
  if (!network.ok()) return Annotate(network.status(), name);
  ModelSpec spec;
  spec.name = name;
  spec.num_dense = options.num_dense;
  spec.num_slots = options.num_slots;
  spec.sparse_inputs = std::move(sparse_inputs);
  spec.parameters = (*network)->parameters();
  spec.num_parameters = (*network)->num_parameters();
  if (const size_t statistics = (*network)->num_statistics(); statistics > 0) {
    SparseInputSpec learned;
    learned.table = "statistics";
    learned.row_dim = kStatisticsRow;
    learned.num_fixed_keys = (statistics + kStatisticsRow - 1) / kStatisticsRow;
    spec.sparse_inputs.push_back(std::move(learned));
  }
  return std::make_unique<NetworkModel>(std::move(spec), options.math_backend,
                                        *std::move(network));
}

}  // namespace oarlock::models
