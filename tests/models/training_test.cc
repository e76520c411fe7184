// Models learn: plain gradient descent over rows and parameters fits labels
// that the model can express.

#include <gtest/gtest.h>

#include <algorithm>
#include <memory>
#include <string>
#include <vector>

#include "base/random.h"
#include "models/model.h"
#include "tests/nn/backends/available_backends.h"

namespace oarlock::models {
namespace {

constexpr uint64_t kSeed = 5;
constexpr size_t kExamples = 96;
constexpr size_t kSlots = 2;
constexpr size_t kDense = 2;
constexpr size_t kKeysPerSlot = 8;

float Initial(const nn::ParameterInit& init, uint64_t seed, uint64_t index) {
  switch (init.kind) {
    case nn::ParameterInit::Kind::kConstant:
      return init.value;
    case nn::ParameterInit::Kind::kUniform:
      return init.value * (2 * RandomUniform(seed, index) - 1);
    case nn::ParameterInit::Kind::kNormal:
      return init.value * RandomNormal(seed, index);
  }
  return 0;
}

struct Problem {
  std::vector<float> labels, dense;
  std::vector<uint32_t> keys;  // also the numbers of the rows
};

// Even keys speak for the label, odd keys against it, and the dense features
// too. `product`: only whether the two keys agree counts, which no sum over
// keys can express.
Problem NewProblem(bool product) {
  RandomSequence random(kSeed);
  Problem problem;
  for (size_t i = 0; i < kExamples; ++i) {
    int votes = 0;
    int sign = 1;
    for (size_t s = 0; s < kSlots; ++s) {
      const uint64_t value = random.Below(kKeysPerSlot);
      problem.keys.push_back(static_cast<uint32_t>(s * kKeysPerSlot + value));
      const int vote = value % 2 == 0 ? 1 : -1;
      votes += vote;
      sign *= vote;
    }
    float dense_sum = 0;
    for (size_t d = 0; d < kDense; ++d) {
      const float x = 2 * static_cast<float>(random.Uniform()) - 1;
      problem.dense.push_back(x);
      dense_sum += x;
    }
    const bool label =
        product ? sign > 0 : static_cast<float>(votes) + dense_sum / 2 > 0;
    problem.labels.push_back(label ? 1 : 0);
  }
  return problem;
}

// Mean loss after `epochs` epochs of gradient descent in batches of 40 (the
// last is short).
double Train(const std::string& name, const Problem& problem, int epochs,
             float learning_rate, const std::string& backend = "onednn") {
  ModelOptions options;
  options.math_backend = backend;
  options.num_dense = kDense;
  options.num_slots = kSlots;
  options.embedding_size = 4;
  // AutoInt has none by itself.
  if (name != "autoint") options.hidden_sizes = {{16, 16}};
  options.attention_size = 4;
  options.cin_sizes = {8, 8};
  options.init_range = 0.1f;
  const auto model = NewModel(name, options);
  EXPECT_TRUE(model.ok()) << model.status();
  const ModelSpec& spec = (*model)->spec();

  std::vector<float> parameters(spec.num_parameters);
  for (const nn::ParameterSpec& parameter : spec.parameters) {
    size_t size = 1;
    for (size_t dim : parameter.shape) size *= dim;
    for (size_t i = parameter.offset; i < parameter.offset + size; ++i) {
      parameters[i] = Initial(parameter.init, kSeed, i);
    }
  }
  const size_t num_rows = kSlots * kKeysPerSlot;
  std::vector<float> rows(num_rows * spec.sparse_inputs[0].row_dim);
  for (size_t i = 0; i < rows.size(); ++i) {
    rows[i] = Initial(spec.sparse_inputs[0].init, kSeed + 1, i);
  }
  std::vector<float> row_gradients(rows.size());
  std::vector<float> parameter_gradients(parameters.size());

  constexpr size_t kBatch = 40;
  const auto executor = (*model)->NewExecutor(kBatch);
  double loss_sum = 0;
  for (int epoch = 0; epoch < epochs; ++epoch) {
    loss_sum = 0;
    for (size_t begin = 0; begin < kExamples; begin += kBatch) {
      nn::StepInput input;
      input.num_examples = std::min(kBatch, kExamples - begin);
      input.labels = &problem.labels[begin];
      input.dense = &problem.dense[begin * kDense];
      nn::SparseInput& sparse = input.sparse.emplace_back();
      sparse.rows = rows.data();
      sparse.num_rows = num_rows;
      sparse.row_of_key = absl::MakeConstSpan(&problem.keys[begin * kSlots],
                                              input.num_examples * kSlots);
      input.parameters = parameters.data();
      input.gradient_scale = 1.0f / kBatch;
      nn::StepOutput output;
      output.row_gradients = {row_gradients.data()};
      output.parameter_gradients = parameter_gradients.data();
      executor->Step(input, &output);
      loss_sum += output.loss_sum;
      for (size_t i = 0; i < rows.size(); ++i) {
        rows[i] -= learning_rate * row_gradients[i];
      }
      for (size_t i = 0; i < parameters.size(); ++i) {
        parameters[i] -= learning_rate * parameter_gradients[i];
      }
    }
  }
  return loss_sum / kExamples;
}

TEST(TrainingTest, AllModelsFitSumsOfVotes) {
  const Problem problem = NewProblem(false);
  for (const char* name : {"lr", "fm", "ffm", "wide_deep", "deepfm", "dcn",
                           "dcn_v2", "xdeepfm", "dlrm", "ctr_dnn", "autoint"}) {
    const double first = Train(name, problem, 1, 0.5f);
    EXPECT_GT(first, 0.3) << name << " seed " << kSeed;
    EXPECT_LT(Train(name, problem, 300, 0.5f), 0.15)
        << name << " seed " << kSeed;
  }
}

TEST(TrainingTest, OnlyModelsWithInteractionsFitProducts) {
  const Problem problem = NewProblem(true);
  for (const std::string& backend : nn::AvailableBackends()) {
    EXPECT_LT(Train("ctr_dnn", problem, 300, 0.5f, backend), 0.1)
        << backend << " seed " << kSeed;
  }
  EXPECT_GT(Train("lr", problem, 300, 0.5f), 0.4) << "seed " << kSeed;
  for (const char* name : {"fm", "ffm", "wide_deep", "deepfm", "dcn", "dcn_v2",
                           "xdeepfm", "dlrm", "autoint"}) {
    EXPECT_LT(Train(name, problem, 300, 0.5f), 0.1)
        << name << " seed " << kSeed;
  }
}

}  // namespace
}  // namespace oarlock::models
