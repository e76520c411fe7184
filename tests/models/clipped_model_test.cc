#include "models/clipped_model.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "tests/nn/step_fixture.h"

namespace oarlock::models {
namespace {

constexpr uint64_t kSeed = 31;
constexpr size_t kExamples = 6;

std::unique_ptr<Model> NewSmallModel() {
  ModelOptions options;
  options.num_dense = 5;
  options.num_slots = 4;
  options.embedding_size = 3;
  options.hidden_sizes = {{6}};
  options.dense_norm = DenseNorm::kData;
  auto model = NewModel("wide_deep", options);
  EXPECT_TRUE(model.ok()) << model.status();
  return *std::move(model);
}

nn::StepShape ShapeFor(const Model& model) {
  nn::StepShape shape;
  shape.num_examples = kExamples;
  shape.num_dense = 5;
  shape.num_slots = 4;
  for (const SparseInputSpec& input : model.spec().sparse_inputs) {
    shape.row_dims.push_back(input.row_dim);
  }
  shape.num_parameters = model.spec().num_parameters;
  return shape;
}

// Dense gradients, those of rows, and what norms learn.
std::vector<std::vector<float>> GradientsOf(const Model& model,
                                            bool accumulate = false) {
  nn::RandomStep step(ShapeFor(model), kSeed);
  if (accumulate) {
    std::fill(step.parameter_gradients.begin(), step.parameter_gradients.end(),
              0.5f);
    step.input.accumulate_parameter_gradients = true;
  }
  model.NewExecutor(kExamples)->Step(step.input, &step.output);
  return {step.parameter_gradients, step.row_gradients[0],
          step.row_gradients[1]};
}

double LengthOf(const std::vector<std::vector<float>>& gradients) {
  double squares = 0;
  for (size_t part = 0; part < 2; ++part) {
    for (const float x : gradients[part]) squares += double{x} * x;
  }
  return std::sqrt(squares);
}

TEST(ClippedModelTest, NothingToClipIsTheModelItself) {
  auto model = NewSmallModel();
  const Model* const before = model.get();
  EXPECT_EQ(WithClipping(std::move(model), {}).get(), before);
}

TEST(ClippedModelTest, ValuesStayWithinTheBound) {
  const auto plain = GradientsOf(*NewSmallModel());
  constexpr float kBound = 0.05f;
  const auto clipped = GradientsOf(*WithClipping(NewSmallModel(), {kBound, 0}));
  size_t changed = 0;
  for (size_t part = 0; part < 2; ++part) {
    for (size_t i = 0; i < plain[part].size(); ++i) {
      EXPECT_EQ(clipped[part][i], std::clamp(plain[part][i], -kBound, kBound));
      changed += clipped[part][i] != plain[part][i];
    }
  }
  EXPECT_GT(changed, 10u);
  EXPECT_EQ(clipped[2], plain[2]);
}

TEST(ClippedModelTest, LengthIsThatOfDenseGradientsAndRowsTogether) {
  const auto plain = GradientsOf(*NewSmallModel());
  const double length = LengthOf(plain);
  ASSERT_GT(length, 0.1);
  const float bound = static_cast<float>(length / 4);
  const auto clipped = GradientsOf(*WithClipping(NewSmallModel(), {0, bound}));
  EXPECT_NEAR(LengthOf(clipped), bound, 1e-5 * bound);
  for (size_t part = 0; part < 2; ++part) {
    for (size_t i = 0; i < plain[part].size(); ++i) {
      EXPECT_NEAR(clipped[part][i], plain[part][i] / 4,
                  1e-5 * (1 + std::abs(plain[part][i])));
    }
  }
  EXPECT_EQ(clipped[2], plain[2]);
  // Long enough: untouched.
  EXPECT_EQ(GradientsOf(*WithClipping(NewSmallModel(),
                                      {0, static_cast<float>(2 * length)})),
            plain);
}

TEST(ClippedModelTest, StepsThatAddUpAreClippedOneByOne) {
  const GradientClip clip = {0.02f, 0.1f};
  const auto alone = GradientsOf(*WithClipping(NewSmallModel(), clip));
  const auto added = GradientsOf(*WithClipping(NewSmallModel(), clip), true);
  for (size_t i = 0; i < alone[0].size(); ++i) {
    EXPECT_EQ(added[0][i], 0.5f + alone[0][i]);
  }
  EXPECT_EQ(added[1], alone[1]);
}

}  // namespace
}  // namespace oarlock::models
