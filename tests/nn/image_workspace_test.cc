// What a workspace promises about images, statistics, training and gradients
// that become final.

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <memory>
#include <utility>
#include <vector>

#include "nn/image_layers.h"
#include "nn/layers.h"
#include "nn/network.h"
#include "nn/reference/reference_backend.h"
#include "nn/workspace.h"
#include "tests/nn/fenced_backend.h"
#include "tests/nn/step_fixture.h"

namespace oarlock::nn {
namespace {

constexpr uint64_t kSeed = 9;
constexpr size_t kMaxExamples = 4;

// Every kind of layer over images once.
std::unique_ptr<Network> NewNetwork() {
  NetworkBuilder b;
  NodeId x = b.Add("image", NewImageInput({.shape = {8, 7, 3}}), {});
  x = b.Add("conv",
            NewConv2d({.out_channels = 5, .window = SquareWindow(3, 1, 1)}),
            {x});
  x = b.Add("norm", NewBatchNorm2d({.activation = Activation::kRelu}), {x});
  const NodeId block = b.Add("norm2", NewBatchNorm2d({}), {x, x});
  x = b.Add("max", NewMaxPool2d({.window = SquareWindow(2, 2)}), {block});
  x = b.Add("mean", NewAveragePool2d(SquareWindow(2, 1, 1)), {x});
  x = b.Add("drop", NewDropout({}), {x});
  const NodeId flat = b.Add("flat", NewFlatten(), {x});
  const NodeId pooled = b.Add("pool", NewGlobalAveragePool(), {block});
  x = b.Add("all", NewConcat(), {flat, pooled});
  x = b.Add("out", NewLinear({.num_outputs = 6}), {x});
  auto network = b.Build(b.Add("loss", NewSoftmaxCrossEntropy(), {x}));
  EXPECT_TRUE(network.ok()) << network.status();
  return *std::move(network);
}

StepShape ShapeFor(const Network& network, size_t num_examples) {
  StepShape shape;
  shape.num_examples = num_examples;
  shape.num_classes = 6;
  shape.num_image_bytes = network.num_image_bytes();
  shape.num_parameters = network.num_parameters();
  shape.num_statistics = network.num_statistics();
  return shape;
}

TEST(ImageWorkspaceTest, BackendWithItsOwnMemoryGivesTheSameResult) {
  const std::unique_ptr<Network> network = NewNetwork();
  Workspace host(*network, NewReferenceBackend(), kMaxExamples);
  Workspace fenced(*network, std::make_unique<FencedBackend>(), kMaxExamples);
  for (const size_t num_examples : {1, 4, 0, 3}) {
    RandomStep a(ShapeFor(*network, num_examples), kSeed);
    RandomStep b(ShapeFor(*network, num_examples), kSeed);
    for (const bool training : {true, false}) {
      a.input.training = b.input.training = training;
      host.Forward(a.input, &a.output);
      fenced.Forward(b.input, &b.output);
      EXPECT_EQ(a.output.loss_sum, b.output.loss_sum);
      EXPECT_EQ(a.output.predictions, b.output.predictions);
      EXPECT_EQ(a.output.predictions.size(), num_examples * 6);
      EXPECT_EQ(a.statistics, b.statistics);
      if (!training) continue;
      host.Backward(&a.output);
      fenced.Backward(&b.output);
      EXPECT_EQ(a.parameter_gradients, b.parameter_gradients);
    }
  }
}

TEST(ImageWorkspaceTest, WhatStaysInTheBackendIsReadAndWrittenThere) {
  const std::unique_ptr<Network> network = NewNetwork();
  Workspace host(*network, NewReferenceBackend(), kMaxExamples);
  auto owned = std::make_unique<FencedBackend>();
  MathBackend* const math = owned.get();
  Workspace fenced(*network, std::move(owned), kMaxExamples);
  RandomStep expected(ShapeFor(*network, 3), kSeed);
  RandomStep step(ShapeFor(*network, 3), kSeed);
  const auto put = [math](const std::vector<float>& values) {
    BackendArray array(math, values.size() * sizeof(float));
    math->CopyIn(values.data(), array.num_bytes(), array.data());
    return array;
  };
  const auto read = [math](const BackendArray& array) {
    std::vector<float> values(array.num_bytes() / sizeof(float));
    math->CopyOut(array.data(), array.num_bytes(), values.data());
    return values;
  };
  const std::vector<float> start = step.statistics;
  const BackendArray parameters = put(step.parameters);
  const BackendArray statistics = put(step.statistics);
  const BackendArray gradients = put(step.parameter_gradients);
  step.input.parameters_in_backend = true;
  step.input.parameters = parameters.floats();
  step.input.statistics = statistics.floats();
  step.output.parameter_gradients = gradients.floats();
  for (const bool accumulate : {false, true}) {
    for (RandomStep* const each : {&expected, &step}) {
      each->input.accumulate_parameter_gradients = accumulate;
    }
    host.Forward(expected.input, &expected.output);
    fenced.Forward(step.input, &step.output);
    EXPECT_EQ(step.output.loss_sum, expected.output.loss_sum);
    EXPECT_EQ(read(statistics), expected.statistics);
    host.Backward(&expected.output);
    std::vector<size_t> calls;
    fenced.Backward(&step.output, [&](size_t first) {
      calls.push_back(first);
      const std::vector<float> now = read(gradients);
      EXPECT_TRUE(std::equal(now.begin() + first, now.end(),
                             expected.parameter_gradients.begin() + first));
    });
    ASSERT_FALSE(calls.empty());
    EXPECT_EQ(calls.back(), 0u);
    EXPECT_EQ(read(gradients), expected.parameter_gradients);
  }
  // The host's own arrays were nobody's.
  EXPECT_EQ(step.statistics, start);
  for (const float x : step.parameter_gradients) ASSERT_TRUE(std::isnan(x));
}

TEST(ImageWorkspaceTest, StatisticsMoveInTrainingAndAreReadOtherwise) {
  const std::unique_ptr<Network> network = NewNetwork();
  ASSERT_EQ(network->num_statistics(), 20u);
  EXPECT_EQ(network->statistics()[1].name, "norm/variance");
  EXPECT_EQ(network->statistics()[1].init.value, 1);
  EXPECT_EQ(network->statistics()[2].offset, 10u);
  Workspace workspace(*network, NewReferenceBackend(), kMaxExamples);
  RandomStep step(ShapeFor(*network, 3), kSeed);
  const std::vector<float> start = step.statistics;
  step.input.training = false;
  workspace.Forward(step.input, &step.output);
  EXPECT_EQ(step.statistics, start);
  const double by_start = step.output.loss_sum;
  step.input.training = true;
  workspace.Forward(step.input, &step.output);
  for (size_t i = 0; i < start.size(); ++i) {
    EXPECT_NE(step.statistics[i], start[i]) << i;
  }
  step.input.training = false;
  workspace.Forward(step.input, &step.output);
  EXPECT_NE(step.output.loss_sum, by_start);
}

TEST(ImageWorkspaceTest, DropoutFollowsTheSeedAndEndsWithTraining) {
  const std::unique_ptr<Network> network = NewNetwork();
  Workspace workspace(*network, NewReferenceBackend(), kMaxExamples);
  RandomStep step(ShapeFor(*network, 3), kSeed);
  const auto loss = [&](bool training, uint64_t seed) {
    step.input.training = training;
    step.input.random_seed = seed;
    workspace.Forward(step.input, &step.output);
    return step.output.loss_sum;
  };
  EXPECT_EQ(loss(true, 1), loss(true, 1));
  EXPECT_NE(loss(true, 1), loss(true, 2));
  EXPECT_EQ(loss(false, 1), loss(false, 2));
}

TEST(ImageWorkspaceTest, BackwardOutsideTrainingCrashes) {
  const std::unique_ptr<Network> network = NewNetwork();
  Workspace workspace(*network, NewReferenceBackend(), kMaxExamples);
  RandomStep step(ShapeFor(*network, 3), kSeed);
  step.input.training = false;
  workspace.Forward(step.input, &step.output);
  EXPECT_DEATH(workspace.Backward(&step.output), "training");
}

class FinalGradientsTest : public ::testing::TestWithParam<bool> {
 protected:
  static std::unique_ptr<MathBackend> NewBackend() {
    if (GetParam()) return std::make_unique<FencedBackend>();
    return NewReferenceBackend();
  }
};

INSTANTIATE_TEST_SUITE_P(HostAndOwnMemory, FinalGradientsTest,
                         ::testing::Bool());

TEST_P(FinalGradientsTest, WhatIsSaidToBeFinalIs) {
  const std::unique_ptr<Network> network = NewNetwork();
  Workspace workspace(*network, NewBackend(), kMaxExamples);
  RandomStep step(ShapeFor(*network, 3), kSeed);
  workspace.Forward(step.input, &step.output);
  std::vector<float> at_the_time(step.parameter_gradients.size());
  std::vector<size_t> calls;
  size_t end = at_the_time.size();
  workspace.Backward(&step.output, [&](size_t first) {
    calls.push_back(first);
    ASSERT_LT(first, end);
    std::copy(step.parameter_gradients.begin() + first,
              step.parameter_gradients.begin() + end,
              at_the_time.begin() + first);
    // Nothing before it has been written: some is still poisoned.
    if (first > 0) {
      EXPECT_TRUE(std::isnan(step.parameter_gradients[first - 1]));
    }
    end = first;
  });
  std::vector<size_t> expected;
  for (const Network::Node& node : network->nodes()) {
    if (node.parameter_offsets.empty()) continue;
    expected.insert(expected.begin(), node.parameter_offsets[0]);
  }
  EXPECT_EQ(calls, expected);
  EXPECT_EQ(calls.back(), 0u);
  EXPECT_EQ(at_the_time, step.parameter_gradients);
}

TEST_P(FinalGradientsTest, SayingSoChangesNoGradient) {
  const std::unique_ptr<Network> network = NewNetwork();
  Workspace workspace(*network, NewBackend(), kMaxExamples);
  RandomStep step(ShapeFor(*network, 3), kSeed);
  for (const bool accumulate : {false, true}) {
    const std::vector<float> before = step.parameter_gradients;
    step.input.accumulate_parameter_gradients = accumulate;
    workspace.Forward(step.input, &step.output);
    workspace.Backward(&step.output);
    const std::vector<float> silent = step.parameter_gradients;
    std::copy(before.begin(), before.end(), step.parameter_gradients.begin());
    workspace.Backward(&step.output, [](size_t) {});
    EXPECT_EQ(step.parameter_gradients, silent);
  }
}

}  // namespace
}  // namespace oarlock::nn
