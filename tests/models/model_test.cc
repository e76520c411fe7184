#include "models/model.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <map>
#include <memory>
#include <numeric>
#include <string>
#include <tuple>
#include <vector>

#include "absl/strings/str_cat.h"
#include "nn/network.h"
#include "proto/config/job_config.pb.h"
#include "tests/nn/backends/available_backends.h"
#include "tests/nn/step_fixture.h"

namespace oarlock::models {
namespace {

constexpr uint64_t kSeed = 11;

std::unique_ptr<Model> MustCreate(const std::string& name,
                                  const ModelOptions& options) {
  auto model = NewModel(name, options);
  EXPECT_TRUE(model.ok()) << model.status();
  return *std::move(model);
}

ModelOptions SmallOptions(size_t num_dense, const std::string& backend) {
  ModelOptions options;
  options.num_dense = num_dense;
  options.num_slots = 4;
  options.embedding_size = 3;
  options.hidden_sizes = {{6, 5}};
  options.cross_layers = 2;
  options.cin_sizes = {3, 2};
  options.attention_size = 2;
  options.math_backend = backend;
  return options;
}

nn::StepShape ShapeFor(const Model& model, size_t num_examples) {
  nn::StepShape shape;
  shape.num_examples = num_examples;
  shape.num_dense = model.spec().num_dense;
  shape.num_slots = model.spec().num_slots;
  shape.row_dims = {model.spec().sparse_inputs[0].row_dim};
  shape.num_parameters = model.spec().num_parameters;
  return shape;
}

class ModelTest : public ::testing::TestWithParam<
                      std::tuple<std::string, size_t, std::string>> {
 protected:
  ModelTest()
      : model_(MustCreate(
            std::get<0>(GetParam()),
            SmallOptions(std::get<1>(GetParam()), std::get<2>(GetParam())))) {}
  std::unique_ptr<Model> model_;
};

INSTANTIATE_TEST_SUITE_P(
    All, ModelTest,
    ::testing::Combine(::testing::Values("lr", "fm", "ffm", "wide_deep",
                                         "deepfm", "dcn", "dcn_v2", "xdeepfm",
                                         "dlrm", "ctr_dnn", "autoint"),
                       ::testing::Values(0, 5),
                       ::testing::ValuesIn(nn::AvailableBackends())),
    [](const auto& info) {
      return absl::StrCat(std::get<0>(info.param), "_", std::get<1>(info.param),
                          "_dense_", std::get<2>(info.param));
    });

// Operands of products are off by at most 2^-9 of themselves; a gradient has
// gone through six roundings in a row.
constexpr double kBfloat16Tolerance = 2e-2;

// Length of a - b over that of a.
double RelativeDistance(const std::vector<float>& a,
                        const std::vector<float>& b) {
  EXPECT_EQ(a.size(), b.size());
  double difference = 0, length = 0;
  for (size_t i = 0; i < a.size(); ++i) {
    difference += (double{a[i]} - b[i]) * (double{a[i]} - b[i]);
    length += double{a[i]} * a[i];
  }
  return std::sqrt(difference / length);
}

bool InBfloat16(const std::string& backend) {
  return backend == "onednn_bfloat16";
}

TEST_P(ModelTest, GradientsMatchFiniteDifferences) {
  const auto& [name, num_dense, backend] = GetParam();
  // A loss of rounded numbers has steps, so its gradients are compared with the
  // differences of the loss that it approximates.
  const auto exact = MustCreate(
      name,
      SmallOptions(num_dense, InBfloat16(backend) ? "reference" : backend));
  const double tolerance = InBfloat16(backend) ? kBfloat16Tolerance : 4e-3;
  for (const bool several_keys : {false, true}) {
    nn::StepShape shape = ShapeFor(*model_, 6);
    shape.several_keys = several_keys;
    nn::RandomStep step(shape, kSeed);
    step.input.gradient_scale = 0.25f;
    const auto executor = model_->NewExecutor(shape.num_examples);
    executor->Step(step.input, &step.output);
    const auto loss_executor = exact->NewExecutor(shape.num_examples);
    nn::ExpectGradientsMatchDifferences(
        step,
        [&] {
          loss_executor->Predict(step.input, &step.output);
          return step.output.loss_sum * step.input.gradient_scale;
        },
        tolerance);
  }
}

TEST_P(ModelTest, StepAndPredictAgree) {
  nn::RandomStep step(ShapeFor(*model_, 6), kSeed);
  const auto executor = model_->NewExecutor(8);
  executor->Predict(step.input, &step.output);
  const double loss = step.output.loss_sum;
  const std::vector<float> predictions(step.output.predictions.begin(),
                                       step.output.predictions.end());
  ASSERT_EQ(predictions.size(), 6u);
  executor->Step(step.input, &step.output);
  EXPECT_EQ(step.output.loss_sum, loss);
  EXPECT_EQ(std::vector<float>(step.output.predictions.begin(),
                               step.output.predictions.end()),
            predictions);
}

TEST_P(ModelTest, LossIsTheLogLossOfThePredictions) {
  nn::RandomStep step(ShapeFor(*model_, 6), kSeed);
  model_->NewExecutor(6)->Predict(step.input, &step.output);
  const auto executor = model_->NewExecutor(6);
  executor->Predict(step.input, &step.output);
  double loss = 0;
  for (size_t i = 0; i < 6; ++i) {
    const float p = step.output.predictions[i];
    loss -= std::log(step.labels[i] == 1 ? p : 1 - p);
  }
  EXPECT_NEAR(step.output.loss_sum, loss, 1e-4 * loss);
}

TEST_P(ModelTest, GradientsOfPartsAddUpToThoseOfTheWhole) {
  // So a short last batch weighs what its examples weigh.
  nn::RandomStep step(ShapeFor(*model_, 7), kSeed);
  const auto executor = model_->NewExecutor(7);
  step.input.gradient_scale = 0.1f;
  executor->Step(step.input, &step.output);
  const double loss = step.output.loss_sum;
  const std::vector<float> whole_rows = step.row_gradients[0];
  const std::vector<float> whole = step.parameter_gradients;

  std::vector<float> sum_rows(whole_rows.size(), 0), sum(whole.size(), 0);
  double loss_sum = 0;
  for (const auto& [begin, end] : {std::pair<size_t, size_t>{0, 5}, {5, 7}}) {
    step.Poison();
    executor->Step(step.Part(begin, end), &step.output);
    loss_sum += step.output.loss_sum;
    for (size_t i = 0; i < sum.size(); ++i) {
      sum[i] += step.parameter_gradients[i];
    }
    for (size_t i = 0; i < sum_rows.size(); ++i) {
      sum_rows[i] += step.row_gradients[0][i];
    }
  }
  EXPECT_NEAR(loss_sum, loss, 1e-5 * loss);
  nn::ExpectClose(whole, sum, 1e-5f, "parameter gradient");
  nn::ExpectClose(whole_rows, sum_rows, 1e-5f, "row gradient");
}

TEST_P(ModelTest, GradientScaleIsAFactor) {
  nn::RandomStep step(ShapeFor(*model_, 5), kSeed);
  const auto executor = model_->NewExecutor(5);
  executor->Step(step.input, &step.output);
  std::vector<float> expected = step.parameter_gradients;
  for (float& x : expected) x *= 0.125f;
  std::vector<float> expected_rows = step.row_gradients[0];
  for (float& x : expected_rows) x *= 0.125f;
  const double loss = step.output.loss_sum;
  step.Poison();
  step.input.gradient_scale = 0.125f;
  executor->Step(step.input, &step.output);
  // The loss is that of the examples, unscaled.
  EXPECT_EQ(step.output.loss_sum, loss);
  nn::ExpectClose(expected, step.parameter_gradients, 1e-6f, "parameter");
  nn::ExpectClose(expected_rows, step.row_gradients[0], 1e-6f, "row");
}

TEST_P(ModelTest, ParametersFillTheFlatVectorWithoutHoles) {
  size_t end = 0;
  for (const nn::ParameterSpec& parameter : model_->spec().parameters) {
    EXPECT_EQ(parameter.offset, end) << parameter.name;
    end += std::accumulate(parameter.shape.begin(), parameter.shape.end(),
                           size_t{1}, std::multiplies<>());
  }
  EXPECT_EQ(end, model_->spec().num_parameters);
  ASSERT_EQ(model_->spec().sparse_inputs.size(), 1u);
  EXPECT_EQ(model_->spec().sparse_inputs[0].slots,
            (std::vector<int>{0, 1, 2, 3}));
}

TEST_P(ModelTest, BackendsAgreeAtRealSize) {
  const std::string& name = std::get<0>(GetParam());
  if (std::get<2>(GetParam()) == "reference") return;  // once is enough
  ModelOptions options;
  options.num_dense = std::get<1>(GetParam()) == 0 ? 0 : 13;
  options.num_slots = options.num_dense == 0 ? 39 : 26;
  options.math_backend = std::get<2>(GetParam());
  const bool rounded = InBfloat16(options.math_backend);
  const auto model = MustCreate(name, options);
  options.math_backend = "reference";
  const auto oracle = MustCreate(name, options);
  nn::StepShape shape = ShapeFor(*model, 17);
  shape.num_rows = 200;
  nn::RandomStep step(shape, kSeed);
  for (float& x : step.parameters) x *= 0.08f;
  const auto run = [&](const Model& m) {
    step.Poison();
    m.NewExecutor(32)->Step(step.input, &step.output);
    return std::make_tuple(step.output.loss_sum, step.parameter_gradients,
                           step.row_gradients[0]);
  };
  const auto [loss, parameters, rows] = run(*model);
  const auto [oracle_loss, oracle_parameters, oracle_rows] = run(*oracle);
  if (rounded) {
    // Units near their ReLU's kink change sides, which no rounding error of an
    // element bounds; .05 to .08 was seen. bfloat16_network_test compares
    // closely, with operands rounded in the oracle too.
    EXPECT_NEAR(loss, oracle_loss, 1e-3 * oracle_loss);
    EXPECT_LE(RelativeDistance(oracle_parameters, parameters), 0.15);
    EXPECT_LE(RelativeDistance(oracle_rows, rows), 0.15);
    return;
  }
  EXPECT_NEAR(loss, oracle_loss, 1e-5 * oracle_loss);
  nn::ExpectClose(oracle_parameters, parameters, 1e-4f, "parameter gradient");
  nn::ExpectClose(oracle_rows, rows, 1e-4f, "row gradient");
}

TEST(CtrDnnTest, IsTheQuickStartsNetwork) {
  const auto model = MustCreate("ctr_dnn", {});
  const ModelSpec& spec = model->spec();
  EXPECT_EQ(spec.num_parameters,
            273u * 400 + 400 + 2 * (400 * 400 + 400) + 400 * 2 + 2);
  ASSERT_EQ(spec.parameters.size(), 8u);
  const size_t sizes[] = {273, 400, 400, 400, 2};
  for (size_t l = 0; l < 4; ++l) {
    const nn::ParameterSpec& weight = spec.parameters[2 * l];
    EXPECT_EQ(weight.shape, (std::vector<size_t>{sizes[l], sizes[l + 1]}));
    EXPECT_EQ(weight.init.kind, nn::ParameterInit::Kind::kNormal);
    EXPECT_FLOAT_EQ(weight.init.value,
                    1 / std::sqrt(static_cast<float>(sizes[l])));
    const nn::ParameterSpec& bias = spec.parameters[2 * l + 1];
    EXPECT_EQ(bias.init.kind, nn::ParameterInit::Kind::kConstant);
    EXPECT_EQ(bias.init.value, 0);
  }
  ASSERT_EQ(spec.sparse_inputs.size(), 1u);
  EXPECT_EQ(spec.sparse_inputs[0].row_dim, 10u);
  EXPECT_EQ(spec.sparse_inputs[0].slots.size(), 26u);
  EXPECT_EQ(spec.sparse_inputs[0].init.kind, nn::ParameterInit::Kind::kUniform);
  EXPECT_EQ(spec.sparse_inputs[0].init.value, 0.01f);
}

TEST(DeepFmTest, RowHoldsTheWeightBeforeTheVector) {
  ModelOptions options;
  options.hidden_sizes.emplace();
  options.num_dense = 0;
  options.num_slots = 2;
  options.embedding_size = 2;
  const auto model = MustCreate("deepfm", options);
  EXPECT_EQ(model->spec().sparse_inputs[0].row_dim, 3u);
  // out/weight [4, 1] and out/bias [1], all zero: only the orders remain.
  const std::vector<float> parameters(model->spec().num_parameters, 0);
  ASSERT_EQ(parameters.size(), 5u);
  const std::vector<float> rows = {0.5f, 1, 2, 0.25f, 3, -1};
  const std::vector<uint32_t> row_of_key = {0, 1};
  const float label = 1;
  nn::StepInput input;
  input.num_examples = 1;
  input.labels = &label;
  nn::SparseInput& sparse = input.sparse.emplace_back();
  sparse.rows = rows.data();
  sparse.num_rows = 2;
  sparse.row_of_key = row_of_key;
  input.parameters = parameters.data();
  nn::StepOutput output;
  const auto executor = model->NewExecutor(1);
  executor->Predict(input, &output);
  const double logit = 0.75 + (1 * 3 + 2 * -1);
  EXPECT_NEAR(output.predictions[0], 1 / (1 + std::exp(-logit)), 1e-6);
}

TEST(LrTest, EverythingStartsAtZero) {
  const auto model = MustCreate("lr", {});
  EXPECT_EQ(model->spec().num_parameters, 14u);
  for (const nn::ParameterSpec& parameter : model->spec().parameters) {
    EXPECT_EQ(parameter.init.kind, nn::ParameterInit::Kind::kConstant);
    EXPECT_EQ(parameter.init.value, 0);
  }
  EXPECT_EQ(model->spec().sparse_inputs[0].row_dim, 1u);
  EXPECT_EQ(model->spec().sparse_inputs[0].init.kind,
            nn::ParameterInit::Kind::kConstant);
  EXPECT_EQ(model->spec().sparse_inputs[0].init.value, 0);
}

TEST(NewModelTest, UnknownNameIsRefusedWithTheLegalOnes) {
  const auto model = NewModel("gpt", {});
  ASSERT_EQ(model.status().code(), absl::StatusCode::kInvalidArgument);
  EXPECT_EQ(model.status().message(),
            "model is \"gpt\"; legal are lr, fm, ffm, wide_deep, deepfm, dcn, "
            "dcn_v2, xdeepfm, dlrm, ctr_dnn, autoint: choose one");
}

TEST(NewModelTest, OptionsOutOfRangeAreRefusedByName) {
  const auto expect_refused = [](const ModelOptions& options,
                                 const std::string& what) {
    const auto model = NewModel("ctr_dnn", options);
    ASSERT_EQ(model.status().code(), absl::StatusCode::kInvalidArgument);
    EXPECT_NE(model.status().message().find(what), std::string::npos)
        << model.status();
  };
  ModelOptions options;
  options.num_slots = 0;
  expect_refused(options, "num_slots is 0; legal is 1 to 4096");
  options = {};
  options.embedding_size = 0;
  expect_refused(options, "embedding_size is 0");
  options = {};
  options.num_dense = static_cast<size_t>(-1);
  expect_refused(options, "num_dense");
  options = {};
  options.hidden_sizes = {{400, 0}};
  expect_refused(options, "hidden_sizes' element is 0");
  options = {};
  options.init_range = std::numeric_limits<float>::quiet_NaN();
  expect_refused(options, "init_range is nan");
  options = {};
  options.dropout = 1;
  expect_refused(options, "dropout is 1; legal is 0 or more and less than 1");
  options = {};
  options.cross_layers = 0;
  expect_refused(options, "cross_layers is 0");
  options = {};
  options.cin_sizes = {};
  expect_refused(options, "cin_sizes' length is 0");
  options = {};
  options.slot_sizes = {{26, 4}};
  expect_refused(options, "slot_sizes has slot 26; legal is 0 to 25");
  options = {};
  options.math_backend = "abacus";
  expect_refused(options, "math backend is \"abacus\"");
}

// All that options can change of a model.
std::string ShapeOf(const std::string& name, const ModelOptions& options) {
  const std::unique_ptr<Model> model = MustCreate(name, options);
  std::string shape;
  for (const SparseInputSpec& input : model->spec().sparse_inputs) {
    absl::StrAppend(&shape, input.table, " ", input.row_dim, "\n");
  }
  for (const nn::Network::Node& node : model->network()->nodes()) {
    absl::StrAppend(&shape, node.name, " ", node.layer->kind(), " ",
                    node.shape.size(), " of");
    for (const size_t input : node.inputs) absl::StrAppend(&shape, " ", input);
    absl::StrAppend(&shape, "\n");
  }
  for (const nn::ParameterSpec& parameter : model->spec().parameters) {
    absl::StrAppend(&shape, parameter.name, " ", parameter.offset, "\n");
  }
  return shape;
}

TEST(ModelFlagsTest, AModelReadsThoseThatChangeIt) {
  // With hidden layers, which autoint has where it is told so.
  ModelOptions usual;
  usual.num_slots = 3;
  usual.hidden_sizes = {{6, 5}};
  std::map<std::string, ModelOptions> changed;
  const auto change = [&](const std::string& flag, auto set) {
    set(changed.emplace(flag, usual).first->second);
  };
  change("hidden_sizes", [](auto& o) { o.hidden_sizes = {{7}}; });
  change("dropout", [](auto& o) { o.dropout = .5f; });
  change("hidden_norm", [](auto& o) { o.hidden_batch_norm = true; });
  change("cross_layers", [](auto& o) { o.cross_layers = 1; });
  change("cin_sizes", [](auto& o) { o.cin_sizes = {4}; });
  change("attention_layers", [](auto& o) { o.attention_layers = 1; });
  change("attention_heads", [](auto& o) { o.attention_heads = 3; });
  change("attention_size", [](auto& o) { o.attention_size = 5; });
  ASSERT_EQ(ModelFlags().size(), changed.size());
  const auto& models = v1::JobConfig::descriptor()
                           ->FindFieldByName("model")
                           ->options()
                           .GetExtension(v1::flag)
                           .one_of();
  ASSERT_GT(models.size(), 10);
  for (const ModelFlag& flag : ModelFlags()) {
    for (const std::string& model : models) {
      SCOPED_TRACE(absl::StrCat(model, " ", flag.flag));
      const bool reads = std::find(flag.models.begin(), flag.models.end(),
                                   model) != flag.models.end();
      EXPECT_EQ(ShapeOf(model, changed.at(flag.flag)) != ShapeOf(model, usual),
                reads);
    }
  }
}

}  // namespace
}  // namespace oarlock::models
