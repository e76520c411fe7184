#include "models/network_model.h"

#include <algorithm>
#include <utility>

#include "absl/strings/match.h"
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
        tables_(StatisticsTablesOf(network)),
        before_(network.num_statistics()),
        statistics_(network.num_statistics()) {}
  void Predict(const nn::StepInput& input, nn::StepOutput* output) override {
    TakeInput(input, /*training=*/false);
    workspace_.Forward(step_, output);
  }
  void Step(const nn::StepInput& input, nn::StepOutput* output) override {
    TakeInput(input, /*training=*/true);
    // The network knows nothing of the last inputs.
    OARLOCK_CHECK(output->row_gradients.size() >= tables_.size());
    const size_t first = output->row_gradients.size() - tables_.size();
    learned_.assign(output->row_gradients.begin() + first,
                    output->row_gradients.end());
    output->row_gradients.resize(first);
    workspace_.Step(step_, output);
    output->row_gradients.insert(output->row_gradients.end(), learned_.begin(),
                                 learned_.end());
    for (size_t t = 0; t < tables_.size(); ++t) {
      PutLearned(tables_[t], InputOf(input, t), learned_[t]);
    }
  }

 private:
  // Copies `input` to step_, and reads the statistics from its last sparse
  // inputs.
  void TakeInput(const nn::StepInput& input, bool training) {
    step_ = input;
    step_.training = training;
    if (tables_.empty()) return;
    OARLOCK_CHECK(input.sparse.size() >= tables_.size());
    step_.sparse.resize(input.sparse.size() - tables_.size());
    for (size_t t = 0; t < tables_.size(); ++t) {
      const nn::SparseInput& learned = InputOf(input, t);
      const std::vector<size_t>& numbers = tables_[t].statistics;
      for (size_t place = 0; place < numbers.size(); ++place) {
        const size_t i = numbers[place];
        statistics_[i] = starts_[i] + learned.rows[FloatAt(learned, place)];
      }
    }
    before_ = statistics_;
    step_.statistics = statistics_.data();
  }

  // Writes what the step has added to the statistics, negated, as the gradients
  // of the rows. (It has multiplied them by the decay first. A push that did so
  // would do it again for each worker of a round.)
  void PutLearned(const StatisticsTable& table, const nn::SparseInput& input,
                  float* gradients) const {
    std::fill_n(gradients, input.num_rows * kStatisticsRow, 0.0f);
    for (size_t place = 0; place < table.statistics.size(); ++place) {
      const size_t i = table.statistics[place];
      gradients[FloatAt(input, place)] =
          static_cast<float>(double{table.decay} * before_[i] - statistics_[i]);
    }
  }

  const nn::SparseInput& InputOf(const nn::StepInput& input,
                                 size_t table) const {
    return input.sparse[input.sparse.size() - tables_.size() + table];
  }
  static size_t FloatAt(const nn::SparseInput& input, size_t place) {
    return input.row_of_key[place / kStatisticsRow] * kStatisticsRow +
           place % kStatisticsRow;
  }

  const nn::Network& network_;
  nn::Workspace workspace_;
  nn::StepInput step_;  // reused
  const std::vector<float> starts_;
  const std::vector<StatisticsTable> tables_;
  // The statistics before and after the step.
  std::vector<float> before_;
  std::vector<float> statistics_;
  // By table: gradients of its rows.
  std::vector<float*> learned_;
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
    nn::NodeId prediction, bool looks_at_pairs) {
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
  spec.one_key_per_slot =
      looks_at_pairs && absl::StartsWith(options.math_backend, "cuda");
  for (StatisticsTable& table : StatisticsTablesOf(**network)) {
    SparseInputSpec learned;
    learned.row_dim = kStatisticsRow;
    learned.num_fixed_keys = table.num_rows();
    learned.decay = table.decay;
    learned.table = std::move(table.name);
    spec.sparse_inputs.push_back(std::move(learned));
  }
  return std::make_unique<NetworkModel>(std::move(spec), options.math_backend,
                                        *std::move(network));
}

}  // namespace oarlock::models
