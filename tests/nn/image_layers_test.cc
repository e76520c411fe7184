// Every kind of layer over images against finite differences, on every backend
// of float32, and what networks of them refuse and promise.

#include "nn/image_layers.h"

#include <gtest/gtest.h>

#include <functional>
#include <memory>
#include <string>
#include <tuple>
#include <vector>

#include "nn/backends/backends.h"
#include "nn/layers.h"
#include "nn/network.h"
#include "nn/workspace.h"
#include "tests/nn/step_fixture.h"

namespace oarlock::nn {
namespace {

constexpr uint64_t kSeed = 5;

// A graph over an image [6, 5, 3], whose gradient comes out as that of a bias,
// up to the tensor that the last layer reads.
struct Graph {
  std::string name;
  std::function<NodeId(NetworkBuilder&, NodeId image)> build;
};

NodeId Conv(NetworkBuilder& b, const std::string& name, NodeId x,
            size_t channels, const Window& window,
            Activation activation = Activation::kNone, bool bias = true) {
  Conv2dOptions options;
  options.out_channels = channels;
  options.window = window;
  options.activation = activation;
  options.bias = bias;
  return b.Add(name, NewConv2d(options), {x});
}

NodeId Norm(NetworkBuilder& b, const std::string& name,
            const std::vector<NodeId>& inputs,
            Activation activation = Activation::kNone) {
  BatchNorm2dOptions options;
  options.activation = activation;
  // So that differences of the loss are those of a smooth function.
  options.epsilon = 0.1f;
  return b.Add(name, NewBatchNorm2d(options), inputs);
}

std::vector<Graph> Graphs() {
  std::vector<Graph> graphs;
  graphs.push_back({"conv", [](auto& b, NodeId image) {
                      return Conv(b, "c", image, 4, SquareWindow(3));
                    }});
  graphs.push_back({"conv_stride_and_padding", [](auto& b, NodeId image) {
                      return Conv(b, "c", image, 2, SquareWindow(3, 2, 1),
                                  Activation::kRelu);
                    }});
  graphs.push_back({"conv_without_bias", [](auto& b, NodeId image) {
                      return Conv(b, "c", image, 3, {{2, 3}, {1, 2}, {0, 1}},
                                  Activation::kNone, false);
                    }});
  graphs.push_back({"max_pool", [](auto& b, NodeId image) {
                      return b.Add("p",
                                   NewMaxPool2d({.window = SquareWindow(2, 2)}),
                                   {image});
                    }});
  graphs.push_back(
      {"overlapping_max_pool_relu", [](auto& b, NodeId image) {
         return b.Add("p",
                      NewMaxPool2d({SquareWindow(3, 2, 1), Activation::kRelu}),
                      {image});
       }});
  graphs.push_back({"average_pool", [](auto& b, NodeId image) {
                      return b.Add("p", NewAveragePool2d(SquareWindow(3, 2, 1)),
                                   {image});
                    }});
  graphs.push_back({"global_average_pool", [](auto& b, NodeId image) {
                      return b.Add("p", NewGlobalAveragePool(), {image});
                    }});
  graphs.push_back({"batch_norm", [](auto& b, NodeId image) {
                      return Norm(b, "n", {image});
                    }});
  graphs.push_back({"batch_norm_relu", [](auto& b, NodeId image) {
                      return Norm(b, "n", {image}, Activation::kRelu);
                    }});
  graphs.push_back(
      {"batch_norm_of_its_own_residual", [](auto& b, NodeId image) {
         return Norm(b, "n", {image, image}, Activation::kRelu);
       }});
  graphs.push_back({"residual_block", [](auto& b, NodeId image) {
                      const Window window = SquareWindow(3, 1, 1);
                      NodeId x = Conv(b, "c1", image, 4, window,
                                      Activation::kNone, false);
                      x = Norm(b, "n1", {x}, Activation::kRelu);
                      x = Conv(b, "c2", x, 3, window, Activation::kNone, false);
                      return Norm(b, "n2", {x, image}, Activation::kRelu);
                    }});
  graphs.push_back({"flatten", [](auto& b, NodeId image) {
                      const NodeId conv =
                          Conv(b, "c", image, 2, SquareWindow(3));
                      const NodeId flat = b.Add("f", NewFlatten(), {conv});
                      const NodeId again = b.Add("ff", NewFlatten(), {flat});
                      const NodeId pool =
                          b.Add("p", NewGlobalAveragePool(), {conv});
                      return b.Add("all", NewConcat(), {again, pool, flat});
                    }});
  graphs.push_back({"dropout", [](auto& b, NodeId image) {
                      return b.Add("d", NewDropout({.rate = 0.4f}), {image});
                    }});
  return graphs;
}

std::unique_ptr<Network> NetworkOf(const Graph& graph) {
  NetworkBuilder builder;
  NodeId x = builder.Add("image", NewDenseInput({6, 5, 3}), {});
  x = builder.Add("bias", NewBias(), {x});
  x = graph.build(builder, x);
  LinearOptions out;
  out.num_outputs = 4;
  x = builder.Add("out", NewLinear(out), {x});
  auto network =
      builder.Build(builder.Add("loss", NewSoftmaxCrossEntropy(), {x}));
  EXPECT_TRUE(network.ok()) << network.status();
  return *std::move(network);
}

StepShape ShapeFor(const Network& network, size_t num_examples) {
  StepShape shape;
  shape.num_examples = num_examples;
  shape.num_dense = network.num_dense();
  shape.num_classes = 4;
  shape.num_parameters = network.num_parameters();
  shape.num_statistics = network.num_statistics();
  return shape;
}

class ImageLayerTest
    : public ::testing::TestWithParam<std::tuple<Graph, std::string>> {};

INSTANTIATE_TEST_SUITE_P(All, ImageLayerTest,
                         ::testing::Combine(::testing::ValuesIn(Graphs()),
                                            ::testing::Values("reference",
                                                              "onednn")),
                         [](const auto& info) {
                           return std::get<0>(info.param).name + "_" +
                                  std::get<1>(info.param);
                         });

TEST_P(ImageLayerTest, GradientMatchesFiniteDifferences) {
  const auto& [graph, backend] = GetParam();
  SCOPED_TRACE(testing::Message() << "seed " << kSeed);
  const std::unique_ptr<Network> network = NetworkOf(graph);
  RandomStep step(ShapeFor(*network, 3), kSeed);
  for (float& parameter : step.parameters) parameter *= 0.5f;
  step.input.random_seed = 17;
  step.input.gradient_scale = 0.5f;
  // Room for more than the batch, as training has.
  Workspace workspace(*network, *NewMathBackend(backend), 5);
  const auto loss = [&] {
    workspace.Forward(step.input, &step.output);
    return step.output.loss_sum * step.input.gradient_scale;
  };
  loss();
  workspace.Backward(&step.output);
  ExpectGradientsMatchDifferences(step, loss);
  ExpectNanReachesTheLoss(step, loss,
                          [&] { workspace.Backward(&step.output); });
}

TEST_P(ImageLayerTest, AccumulatedGradientsAreTwiceThoseOfOneStep) {
  const auto& [graph, backend] = GetParam();
  const std::unique_ptr<Network> network = NetworkOf(graph);
  RandomStep step(ShapeFor(*network, 3), kSeed);
  Workspace workspace(*network, *NewMathBackend(backend), 3);
  workspace.Forward(step.input, &step.output);
  workspace.Backward(&step.output);
  std::vector<float> twice = step.parameter_gradients;
  for (float& gradient : twice) gradient *= 2;
  step.input.accumulate_parameter_gradients = true;
  workspace.Forward(step.input, &step.output);
  workspace.Backward(&step.output);
  ExpectClose(twice, step.parameter_gradients, 1e-4f, "gradients");
}

TEST_P(ImageLayerTest, EmptyBatchHasNoLossAndZeroGradients) {
  const auto& [graph, backend] = GetParam();
  const std::unique_ptr<Network> network = NetworkOf(graph);
  RandomStep step(ShapeFor(*network, 0), kSeed);
  const std::vector<float> statistics = step.statistics;
  Workspace workspace(*network, *NewMathBackend(backend), 3);
  workspace.Forward(step.input, &step.output);
  workspace.Backward(&step.output);
  EXPECT_EQ(step.output.loss_sum, 0);
  EXPECT_EQ(step.parameter_gradients,
            std::vector<float>(step.parameter_gradients.size(), 0));
  EXPECT_EQ(step.statistics, statistics);
}

// By a network of one layer under test, up to a linear layer.
absl::Status BuildStatus(Shape image, std::unique_ptr<Layer> layer) {
  NetworkBuilder builder;
  const NodeId x = builder.Add("x", NewDenseInput(std::move(image)), {});
  const NodeId y = builder.Add("y", std::move(layer), {x});
  const NodeId out = builder.Add("out", NewLinear({.num_outputs = 2}), {y});
  return builder.Build(builder.Add("loss", NewSoftmaxCrossEntropy(), {out}))
      .status();
}

TEST(ImageLayersTest, WhatDoesNotFitIsRefusedInOneLine) {
  const auto message = [](Shape image, std::unique_ptr<Layer> layer) {
    const absl::Status status = BuildStatus(std::move(image), std::move(layer));
    EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument);
    return std::string(status.message());
  };
  EXPECT_EQ(message({6}, NewConv2d({.out_channels = 2})),
            "node \"y\": conv2d got inputs [6], takes one of shape [height, "
            "width, channels]");
  EXPECT_EQ(
      message({2, 6, 1},
              NewConv2d({.out_channels = 2, .window = SquareWindow(3)})),
      "node \"y\": conv2d got a kernel of 3 by 3 for an image [2, 6, 1]; legal "
      "is one that fits into the padded image: use a smaller one");
  EXPECT_EQ(message({5, 5, 1}, NewConv2d({})),
            "node \"y\": conv2d got 0 out_channels; legal is 1 or more: "
            "correct it");
  EXPECT_EQ(message({5, 5, 1},
                    NewConv2d({.out_channels = 1, .window = SquareWindow(0)})),
            "node \"y\": conv2d got a kernel of 0 by 0 and a stride of 1 by 1; "
            "legal are sizes of 1 or more: correct them");
  EXPECT_EQ(message({5, 5, 1}, NewMaxPool2d({.window = SquareWindow(2, 1, 2)})),
            "node \"y\": max_pool2d got a padding of 2 by 2 for a kernel of 2 "
            "by 2; legal is a smaller one than the kernel");
  EXPECT_EQ(message({20, 20, 1}, NewMaxPool2d({.window = SquareWindow(16)})),
            "node \"y\": max_pool2d got a kernel of 256 elements; legal are at "
            "most 255: pool twice");
  EXPECT_EQ(message({5, 5, 1}, NewBatchNorm2d({.epsilon = 0})),
            "node \"y\": batch_norm2d got epsilon 0 and momentum 0.9; legal "
            "are more than 0, and 0 to 1: correct them");
  EXPECT_EQ(message({5, 5, 1}, NewDropout({.rate = 1})),
            "node \"y\": dropout got rate 1; legal is 0 or more and less than "
            "1: correct it");
}

TEST(ImageLayersTest, AllNodesReadImagesOfOneSize) {
  NetworkBuilder b;
  const NodeId x = b.Add("x", NewImageInput({.shape = {2, 2, 3}}), {});
  const NodeId y = b.Add("y", NewImageInput({.shape = {2, 2, 1}}), {});
  const NodeId all = b.Add("all", NewConcat(), {x, y});
  EXPECT_EQ(b.Build(all).status().message(),
            "node \"y\": reads images of 4 bytes, another node of 12; all read "
            "the same");
}

TEST(ImageLayersTest, ViewThatNobodyReadsIsRefused) {
  NetworkBuilder b;
  const NodeId x = b.Add("x", NewDenseInput({2, 2, 3}), {});
  b.Add("flat", NewFlatten(), {x});
  const NodeId out = b.Add("out", NewLinear({.num_outputs = 2}), {x});
  EXPECT_EQ(b.Build(b.Add("loss", NewSoftmaxCrossEntropy(), {out}))
                .status()
                .message(),
            "node \"flat\" feeds no other; all lead to a loss: connect it or "
            "leave it out");
}

// Fans of a 3x2 convolution of 4 channels to 6: 24 and 36.
TEST(ImageLayersTest, WeightsStartByTheirFans) {
  const auto init_of = [](WeightStart start) {
    const auto layer = NewConv2d({.out_channels = 6,
                                  .window = {{3, 2}, {1, 1}, {0, 0}},
                                  .weight_start = start});
    const Shape image = {8, 8, 4};
    return layer->Parameters({&image, 1})[0].init;
  };
  using Kind = ParameterInit::Kind;
  const auto expect = [&](WeightStart start, Kind kind, double value) {
    EXPECT_EQ(init_of(start).kind, kind);
    EXPECT_NEAR(init_of(start).value, value, 1e-6);
  };
  expect(WeightStart::kHeNormal, Kind::kNormal, 0.28867513);
  expect(WeightStart::kXavierUniform, Kind::kUniform, 0.31622777);
  expect(WeightStart::kFanInUniform, Kind::kUniform, 0.20412415);
  expect(WeightStart::kFanInNormal, Kind::kNormal, 0.20412415);
  expect(WeightStart::kZero, Kind::kConstant, 0);
}

TEST(ImageLayersTest, ImageInputRefusesWhatItCannotScale) {
  const auto message = [](const ImageInputOptions& options) {
    NetworkBuilder b;
    const NodeId x = b.Add("x", NewImageInput(options), {});
    return std::string(b.Build(x).status().message());
  };
  EXPECT_EQ(message({.shape = {2, 2, 5}}),
            "node \"x\": image_input got shape [2, 2, 5]; legal is [height, "
            "width, channels] of at most 4 channels: correct it");
  EXPECT_EQ(
      message({.shape = {2, 2, 3}, .mean = {1, 2}}),
      "node \"x\": image_input got 2 values of mean for 3 channels; legal "
      "are one for each, one or none");
  EXPECT_EQ(message({.shape = {2, 2, 1}, .deviation = {0}}),
            "node \"x\": image_input got a deviation of 0; legal is any other: "
            "correct it");
}

}  // namespace
}  // namespace oarlock::nn
