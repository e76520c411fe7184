// What models have in common and options switch on: dropout, norms, pooling,
// sizes of slots.

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <memory>
#include <string>
#include <tuple>
#include <utility>
#include <vector>

#include "base/random.h"
#include "models/model.h"
#include "tests/nn/step_fixture.h"

namespace oarlock::models {
namespace {

constexpr uint64_t kSeed = 23;
constexpr size_t kExamples = 6;

std::unique_ptr<Model> MustCreate(const std::string& name,
                                  const ModelOptions& options) {
  auto model = NewModel(name, options);
  EXPECT_TRUE(model.ok()) << model.status();
  return *std::move(model);
}

struct Feature {
  std::string name;
  void (*set)(ModelOptions&);
};

// Four slots; two of them in each sparse input where they differ in size.
ModelOptions SmallOptions(const Feature& feature, const std::string& backend) {
  ModelOptions options;
  options.num_dense = 5;
  options.num_slots = 4;
  options.embedding_size = 3;
  options.hidden_sizes = {{6, 5}};
  options.math_backend = backend;
  feature.set(options);
  return options;
}

nn::StepShape ShapeFor(const Model& model, bool several_keys) {
  nn::StepShape shape;
  shape.num_examples = kExamples;
  shape.num_dense = model.spec().num_dense;
  shape.num_slots = model.spec().sparse_inputs[0].slots.size();
  for (const SparseInputSpec& input : model.spec().sparse_inputs) {
    shape.row_dims.push_back(input.row_dim);
  }
  shape.num_parameters = model.spec().num_parameters;
  shape.several_keys = several_keys;
  return shape;
}

class FeatureTest : public ::testing::TestWithParam<
                        std::tuple<std::string, Feature, std::string>> {};

INSTANTIATE_TEST_SUITE_P(All, FeatureTest,
                         ::testing::Combine(
                             ::testing::Values("wide_deep", "dcn_v2"),
                             ::testing::Values(Feature{"dropout",
                                                       [](ModelOptions& o) {
                                                         o.dropout = 0.4f;
                                                       }},
                                               Feature{"hidden_batch_norm",
                                                       [](ModelOptions& o) {
                                                         o.hidden_batch_norm =
                                                             true;
                                                       }},
                                               Feature{"dense_batch_norm",
                                                       [](ModelOptions& o) {
                                                         o.dense_norm =
                                                             DenseNorm::kBatch;
                                                       }},
                                               Feature{"data_norm",
                                                       [](ModelOptions& o) {
                                                         o.dense_norm =
                                                             DenseNorm::kData;
                                                       }},
                                               Feature{"mean",
                                                       [](ModelOptions& o) {
                                                         o.mean_pooling = true;
                                                       }},
                                               Feature{"sizes",
                                                       [](ModelOptions& o) {
                                                         o.slot_sizes = {
                                                             {1, 2}, {3, 2}};
                                                       }},
                                               Feature{"all",
                                                       [](ModelOptions& o) {
                                                         o.dropout = 0.2f;
                                                         o.hidden_batch_norm =
                                                             true;
                                                         o.dense_norm =
                                                             DenseNorm::kData;
                                                         o.mean_pooling = true;
                                                         o.slot_sizes = {
                                                             {0, 2}, {2, 2}};
                                                       }}),
                             ::testing::Values("reference", "onednn")),
                         [](const auto& info) {
                           return std::get<0>(info.param) + "_" +
                                  std::get<1>(info.param).name + "_" +
                                  std::get<2>(info.param);
                         });

TEST_P(FeatureTest, GradientsMatchFiniteDifferences) {
  const auto& [name, feature, backend] = GetParam();
  SCOPED_TRACE(testing::Message() << "seed " << kSeed);
  const auto model = MustCreate(name, SmallOptions(feature, backend));
  for (const bool several_keys : {false, true}) {
    nn::RandomStep step(ShapeFor(*model, several_keys), kSeed);
    step.input.gradient_scale = 0.25f;
    step.input.random_seed = kSeed;
    const auto executor = model->NewExecutor(kExamples);
    executor->Step(step.input, &step.output);
    // What norms learn is no gradient.
    std::vector<std::vector<float>> learned;
    for (const SparseInputSpec& input : model->spec().sparse_inputs) {
      if (!input.is_statistics()) continue;
      learned.push_back(std::move(step.rows.back()));
      step.rows.pop_back();
    }
    const std::vector<float> gradients = step.parameter_gradients;
    const std::vector<std::vector<float>> row_gradients = step.row_gradients;
    const auto other = model->NewExecutor(kExamples);
    nn::RandomStep unused(ShapeFor(*model, several_keys), kSeed);
    nn::ExpectGradientsMatchDifferences(step, [&] {
      // A step as well: it drops and norms, and writes its gradients elsewhere.
      other->Step(step.input, &unused.output);
      return unused.output.loss_sum * step.input.gradient_scale;
    });
  }
}

TEST_P(FeatureTest, PredictionsDependOnNothingButTheExample) {
  const auto& [name, feature, backend] = GetParam();
  const auto model = MustCreate(name, SmallOptions(feature, backend));
  nn::RandomStep step(ShapeFor(*model, /*several_keys=*/false), kSeed);
  const auto executor = model->NewExecutor(kExamples);
  executor->Predict(step.input, &step.output);
  const std::vector<float> all(step.output.predictions.begin(),
                               step.output.predictions.end());
  for (size_t i = 0; i < kExamples; ++i) {
    nn::StepInput one = step.input;
    one.num_examples = 1;
    one.random_seed = i;
    one.labels += i;
    one.dense += i * step.shape.num_dense;
    for (size_t s = 0; s < one.sparse.size(); ++s) {
      if (model->spec().sparse_inputs[s].is_statistics()) continue;
      one.sparse[s].row_of_key = one.sparse[s].row_of_key.subspan(
          i * step.shape.num_slots, step.shape.num_slots);
    }
    executor->Predict(one, &step.output);
    EXPECT_NEAR(step.output.predictions[0], all[i], 1e-6) << i;
  }
}

TEST(DropoutTest, DropsInStepsAndByTheirSeed) {
  const Feature none = {"", [](ModelOptions&) {}};
  const Feature half = {"", [](ModelOptions& o) { o.dropout = 0.5f; }};
  const auto plain = MustCreate("wide_deep", SmallOptions(none, "onednn"));
  const auto model = MustCreate("wide_deep", SmallOptions(half, "onednn"));
  nn::RandomStep step(ShapeFor(*model, false), kSeed);
  const auto loss = [&](const Model& m, bool trains, uint64_t seed) {
    step.input.random_seed = seed;
    const auto executor = m.NewExecutor(kExamples);
    if (trains) {
      executor->Step(step.input, &step.output);
    } else {
      executor->Predict(step.input, &step.output);
    }
    return step.output.loss_sum;
  };
  EXPECT_EQ(loss(*model, false, 1), loss(*plain, false, 2));
  EXPECT_EQ(loss(*model, true, 1), loss(*model, true, 1));
  EXPECT_NE(loss(*model, true, 1), loss(*model, true, 2));
  EXPECT_NE(loss(*model, true, 1), loss(*plain, true, 1));
}

// Dense features of a given mean and deviation, learned by steps of several
// workers that push at the same time.
class NormLearningTest
    : public ::testing::TestWithParam<std::tuple<DenseNorm, int>> {};

INSTANTIATE_TEST_SUITE_P(
    All, NormLearningTest,
    ::testing::Combine(::testing::Values(DenseNorm::kBatch, DenseNorm::kData),
                       ::testing::Values(1, 100, 256, 1000)));

TEST_P(NormLearningTest, RowsComeToHoldMeanAndVariance) {
  const auto [norm, workers] = GetParam();
  constexpr double kMean = 3, kDeviation = 4;
  const int rounds = workers == 1 ? 1000 : 150;
  const int examples_of_step = workers > 100 ? 5 : 50;
  ModelOptions options;
  options.num_dense = 1;
  options.num_slots = 4;
  options.hidden_sizes.emplace();
  options.dense_norm = norm;
  const auto model = MustCreate("wide_deep", options);
  const SparseInputSpec& spec = model->spec().sparse_inputs.back();
  ASSERT_TRUE(spec.is_statistics());
  ASSERT_EQ(spec.table, "statistics");
  ASSERT_EQ(spec.num_fixed_keys, 1u);
  nn::StepShape shape = ShapeFor(*model, false);
  shape.num_examples = examples_of_step;
  nn::RandomStep step(shape, kSeed);
  std::fill(step.rows.back().begin(), step.rows.back().end(), 0);
  std::vector<uint32_t> first(1, 0);
  step.input.sparse.back().row_of_key = first;
  RandomSequence random(kSeed);
  const auto executor = model->NewExecutor(shape.num_examples);
  for (int round = 0; round < rounds; ++round) {
    std::vector<float> sum(spec.row_dim, 0);
    for (int worker = 0; worker < workers; ++worker) {
      for (float& x : step.dense) {
        x = static_cast<float>(
            kMean + kDeviation * RandomNormal(kSeed, random.Below(1ull << 40)));
      }
      executor->Step(step.input, &step.output);
      for (size_t i = 0; i < sum.size(); ++i) {
        sum[i] += step.row_gradients.back()[i];
      }
    }
    // As the table does.
    for (size_t i = 0; i < sum.size(); ++i) {
      float& w = step.rows.back()[i];
      w = spec.decay * w - sum[i];
    }
  }
  const bool data = norm == DenseNorm::kData;
  const double start = data ? 1e4 : 0;
  const double count = start + step.rows.back()[0];
  const double mean = step.rows.back()[1] / count;
  const double variance = (start + step.rows.back()[2]) / count;
  // Data norm remembers 10,000 examples of a standard normal among these, batch
  // norm only those of the last hundred rounds or so.
  const double examples = 1.0 * rounds * workers * examples_of_step;
  const double drawn_to_0 = data ? kMean * 1e4 / (1e4 + examples) : 0;
  EXPECT_NEAR(mean, kMean - drawn_to_0, 0.25) << "seed " << kSeed;
  // The first squares were those of distances to other means.
  EXPECT_NEAR(std::sqrt(variance), kDeviation,
              data && workers == 1 ? 0.75 : 0.25);
  const double expected = data ? 1e4 + examples
                               : 1.0 * workers * examples_of_step *
                                     (1 - std::pow(.99, rounds)) / (1 - .99);
  EXPECT_NEAR(count, expected, expected * 1e-3);
  // Floats behind the three are nobody's.
  for (size_t i = 3; i < spec.row_dim; ++i) {
    EXPECT_EQ(step.rows.back()[i], 0);
  }
}

// Slots of several keys, and of none.
TEST(PairsInSlotsTest, FmIsTheSumOverPairsOfKeys) {
  for (const char* const backend : {"reference", "onednn"}) {
    for (const bool mean : {false, true}) {
      ModelOptions options;
      options.num_dense = 0;
      options.num_slots = 3;
      options.embedding_size = 5;
      options.mean_pooling = mean;
      options.several_keys_per_slot = true;
      options.math_backend = backend;
      const auto model = MustCreate("fm", options);
      nn::RandomStep step(ShapeFor(*model, /*several_keys=*/true), kSeed);
      const auto executor = model->NewExecutor(kExamples);
      std::fill(step.parameters.begin(), step.parameters.end(), 0.0f);
      executor->Predict(step.input, &step.output);
      const nn::SparseInput& sparse = step.input.sparse[0];
      ASSERT_FALSE(sparse.offsets.empty());
      for (size_t e = 0; e < kExamples; ++e) {
        // Every key of the example: its row, and what it is multiplied by.
        std::vector<std::pair<const float*, double>> keys;
        for (size_t bag = e * 3; bag < e * 3 + 3; ++bag) {
          const size_t n = sparse.offsets[bag + 1] - sparse.offsets[bag];
          for (size_t k = sparse.offsets[bag]; k < sparse.offsets[bag + 1];
               ++k) {
            keys.emplace_back(sparse.rows + sparse.row_of_key[k] * 6,
                              mean ? 1.0 / n : 1.0);
          }
        }
        double logit = 0;
        for (size_t i = 0; i < keys.size(); ++i) {
          const auto& [a, x] = keys[i];
          logit += a[0] * x;
          for (size_t j = 0; j < i; ++j) {
            const auto& [b, y] = keys[j];
            for (size_t c = 1; c < 6; ++c) logit += a[c] * x * b[c] * y;
          }
        }
        EXPECT_NEAR(step.output.predictions[e], 1 / (1 + std::exp(-logit)),
                    1e-5)
            << backend << ", example " << e << ", seed " << kSeed;
      }
      executor->Step(step.input, &step.output);
      nn::RandomStep unused(ShapeFor(*model, true), kSeed);
      nn::ExpectGradientsMatchDifferences(step, [&] {
        executor->Step(step.input, &unused.output);
        return unused.output.loss_sum;
      });
    }
  }
}

TEST(NormTablesTest, NormsThatDecayOtherwiseHaveTablesOfTheirOwn) {
  ModelOptions options;
  options.num_dense = 2;
  options.num_slots = 3;
  options.hidden_sizes = {5, 40};
  options.dense_norm = DenseNorm::kData;
  options.hidden_batch_norm = true;
  const auto model = MustCreate("ctr_dnn", options);
  const std::vector<SparseInputSpec>& inputs = model->spec().sparse_inputs;
  ASSERT_GE(inputs.size(), 3u);
  const SparseInputSpec& data = inputs[inputs.size() - 2];
  const SparseInputSpec& batch = inputs.back();
  EXPECT_EQ(data.table, "statistics");
  EXPECT_FLOAT_EQ(data.decay, .999999f);
  EXPECT_EQ(data.num_fixed_keys, 1u);
  EXPECT_EQ(batch.table, "statistics_2");
  EXPECT_FLOAT_EQ(batch.decay, .99f);
  // Of 5 and 40 columns two numbers each, and two counts.
  EXPECT_EQ(batch.num_fixed_keys, 2u);
}

TEST(SlotSizesTest, SlotsOfOneSizeHaveOneTable) {
  ModelOptions options;
  options.num_slots = 5;
  options.embedding_size = 8;
  options.slot_sizes = {{0, 4}, {3, 16}, {4, 4}, {2, 8}};
  const auto model = MustCreate("wide_deep", options);
  const std::vector<SparseInputSpec>& inputs = model->spec().sparse_inputs;
  ASSERT_EQ(inputs.size(), 3u);
  EXPECT_EQ(inputs[0].table, "embedding");
  EXPECT_EQ(inputs[0].row_dim, 9u);
  EXPECT_EQ(inputs[0].slots, (std::vector<int>{1, 2}));
  EXPECT_EQ(inputs[1].table, "embedding_4");
  EXPECT_EQ(inputs[1].row_dim, 5u);
  EXPECT_EQ(inputs[1].slots, (std::vector<int>{0, 4}));
  EXPECT_EQ(inputs[2].table, "embedding_16");
  EXPECT_EQ(inputs[2].row_dim, 17u);
  EXPECT_EQ(inputs[2].slots, (std::vector<int>{3}));
}

TEST(SlotSizesTest, ModelsThatLookAtSlotsTogetherRefuseThem) {
  ModelOptions options;
  options.slot_sizes = {{0, 4}};
  for (const char* name :
       {"lr", "fm", "ffm", "deepfm", "xdeepfm", "dlrm", "autoint"}) {
    const auto model = NewModel(name, options);
    ASSERT_EQ(model.status().code(), absl::StatusCode::kInvalidArgument)
        << name;
    EXPECT_NE(model.status().message().find(
                  "legal are slots of their own sizes with ctr_dnn, wide_deep, "
                  "dcn and dcn_v2"),
              std::string::npos)
        << model.status();
  }
}

}  // namespace
}  // namespace oarlock::models
