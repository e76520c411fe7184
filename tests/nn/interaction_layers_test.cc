// Layers in which features meet and norms, alone and in graphs, against finite
// differences, on every backend, with one key and with several keys per slot.

#include "nn/interaction_layers.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <functional>
#include <memory>
#include <string>
#include <tuple>
#include <vector>

#include "nn/backends/backends.h"
#include "nn/layers.h"
#include "nn/network.h"
#include "nn/norm_layers.h"
#include "nn/workspace.h"
#include "tests/nn/fenced_backend.h"
#include "tests/nn/step_fixture.h"

namespace oarlock::nn {
namespace {

constexpr uint64_t kSeed = 17;
constexpr size_t kSlots = 3;
constexpr size_t kRowDim = 6;
constexpr size_t kDense = 5;

// A graph over an embedding [kSlots, kRowDim] and kDense dense features.
struct Graph {
  std::string name;
  std::function<NodeId(NetworkBuilder&, NodeId rows, NodeId dense)> build;
};

NodeId Linear(NetworkBuilder& b, const std::string& name, NodeId x,
              size_t num_outputs) {
  return b.Add(name, NewLinear({.num_outputs = num_outputs}), {x});
}

std::vector<Graph> Graphs() {
  std::vector<Graph> graphs;
  graphs.push_back({"mean_of_a_slot", [](auto& b, NodeId rows, NodeId dense) {
                      EmbeddingOptions options;
                      options.num_slots = kSlots;
                      options.row_dim = kRowDim;
                      options.column_begin = 1;
                      options.width = 4;
                      options.mean = true;
                      const NodeId mean =
                          b.Add("mean", NewEmbedding(options), {});
                      return b.Add("both", NewConcat(), {rows, mean, dense});
                    }});
  graphs.push_back({"field_aware_fm", [](auto& b, NodeId rows, NodeId dense) {
                      const NodeId y = b.Add("y", NewFieldAwareFm(), {rows});
                      return b.Add("both", NewConcat(), {y, dense});
                    }});
  graphs.push_back(
      {"cross_by_a_number", [](auto& b, NodeId rows, NodeId dense) {
         const NodeId x = Linear(b, "x", dense, 18);
         const NodeId z = Linear(b, "z", x, 1);
         const NodeId a = b.Add("a", NewFlatten(), {rows});
         return b.Add("y", NewCross(), {a, z, x});
       }});
  graphs.push_back(
      {"cross_number_by_number", [](auto& b, NodeId rows, NodeId dense) {
         const NodeId z = Linear(b, "z", dense, 18);
         return b.Add("y", NewCross(), {rows, z, rows});
       }});
  graphs.push_back({"cross_with_itself", [](auto& b, NodeId rows, NodeId) {
                      return b.Add("y", NewCross(), {rows, rows, rows});
                    }});
  graphs.push_back({"row_linear", [](auto& b, NodeId rows, NodeId dense) {
                      RowLinearOptions options;
                      options.num_outputs = 5;
                      options.bias = true;
                      options.activation = Activation::kRelu;
                      const NodeId y =
                          b.Add("y", NewRowLinear(options), {rows});
                      return b.Add("both", NewConcat(), {y, dense});
                    }});
  graphs.push_back(
      {"transpose_and_sum_rows", [](auto& b, NodeId rows, NodeId dense) {
         const NodeId t = b.Add("t", NewTranspose(), {rows});
         const NodeId sums = b.Add("sums", NewSumRows(), {t});
         const NodeId other = b.Add("other", NewSumRows(), {rows});
         return b.Add("all", NewConcat(), {t, sums, other, dense});
       }});
  graphs.push_back(
      {"compressed_interaction", [](auto& b, NodeId rows, NodeId dense) {
         const NodeId x0 = b.Add("x0", NewTranspose(), {rows});
         const NodeId x1 = b.Add("x1", NewCompressedInteraction({4}), {x0, x0});
         const NodeId x2 = b.Add("x2", NewCompressedInteraction({2}), {x1, x0});
         return b.Add("all", NewConcat(), {x1, x2, dense});
       }});
  graphs.push_back(
      {"pairwise_dots", [](auto& b, NodeId rows, NodeId dense) {
         const NodeId other = Linear(b, "other", dense, kRowDim);
         const NodeId all = b.Add("all", NewConcat(), {rows, other});
         return b.Add("y", NewPairwiseDots({kRowDim}), {all});
       }});
  graphs.push_back({"self_attention", [](auto& b, NodeId rows, NodeId dense) {
                      RowLinearOptions options;
                      options.num_outputs = 3 * 2 * 4;
                      const NodeId qkv =
                          b.Add("qkv", NewRowLinear(options), {rows});
                      const NodeId y = b.Add("y", NewSelfAttention({2}), {qkv});
                      return b.Add("all", NewConcat(), {y, qkv, dense});
                    }});
  graphs.push_back(
      {"scaled_vectors", [](auto& b, NodeId rows, NodeId dense) {
         ScaledVectorsOptions options;
         options.width = kRowDim;
         const NodeId of_input =
             b.Add("of_input", NewScaledVectors(options), {dense});
         const NodeId numbers = Linear(b, "numbers", dense, 2);
         const NodeId learned =
             b.Add("learned", NewScaledVectors(options), {numbers});
         const NodeId all =
             b.Add("all", NewConcat(), {rows, of_input, learned});
         const NodeId fields =
             b.Add("fields", NewReshape({kSlots + kDense + 2, kRowDim}), {all});
         return b.Add("y", NewPairwiseDots({kRowDim}), {fields});
       }});
  graphs.push_back({"batch_norm", [](auto& b, NodeId rows, NodeId dense) {
                      BatchNormOptions options;
                      options.activation = Activation::kRelu;
                      const NodeId of_input =
                          b.Add("of_input", NewBatchNorm({}), {dense});
                      const NodeId y = b.Add("y", NewBatchNorm(options),
                                             {Linear(b, "x", rows, 7)});
                      return b.Add("both", NewConcat(), {of_input, y});
                    }});
  graphs.push_back({"data_norm", [](auto& b, NodeId rows, NodeId dense) {
                      const NodeId of_input =
                          b.Add("of_input", NewDataNorm(), {dense});
                      const NodeId y = b.Add("y", NewDataNorm(), {rows});
                      return b.Add("both", NewConcat(), {of_input, y});
                    }});
  return graphs;
}

std::unique_ptr<Network> NetworkOf(const Graph& graph) {
  NetworkBuilder b;
  const NodeId rows = b.Add(
      "rows",
      NewEmbedding({.num_slots = kSlots, .row_dim = kRowDim, .width = kRowDim}),
      {});
  const NodeId dense = b.Add("dense", NewDenseInput({kDense}), {});
  const NodeId y = graph.build(b, rows, dense);
  // Both, whatever the graph has read.
  const NodeId all = b.Add("everything", NewConcat(), {y, rows, dense});
  auto network = b.Build(
      b.Add("loss", NewSigmoidCrossEntropy(), {Linear(b, "end", all, 1)}));
  EXPECT_TRUE(network.ok()) << network.status();
  return *std::move(network);
}

StepShape ShapeFor(const Network& network, bool several_keys) {
  StepShape shape;
  shape.num_examples = 5;
  shape.num_dense = kDense;
  shape.num_slots = kSlots;
  shape.row_dims = network.row_dims();
  shape.num_parameters = network.num_parameters();
  shape.num_statistics = network.num_statistics();
  shape.several_keys = several_keys;
  return shape;
}

class InteractionGradientTest
    : public ::testing::TestWithParam<std::tuple<Graph, std::string, bool>> {};

INSTANTIATE_TEST_SUITE_P(
    All, InteractionGradientTest,
    ::testing::Combine(::testing::ValuesIn(Graphs()),
                       ::testing::Values("reference", "onednn"),
                       ::testing::Bool()),
    [](const auto& info) {
      return std::get<0>(info.param).name + "_" + std::get<1>(info.param) +
             (std::get<2>(info.param) ? "_several_keys" : "_one_key");
    });

class ThroughTheHostTest : public ::testing::TestWithParam<Graph> {};

INSTANTIATE_TEST_SUITE_P(All, ThroughTheHostTest, ::testing::ValuesIn(Graphs()),
                         [](const auto& info) { return info.param.name; });

TEST_P(InteractionGradientTest, MatchesFiniteDifferences) {
  const auto& [graph, backend, several_keys] = GetParam();
  SCOPED_TRACE(testing::Message() << "seed " << kSeed);
  const std::unique_ptr<Network> network = NetworkOf(graph);
  RandomStep step(ShapeFor(*network, several_keys), kSeed);
  step.input.gradient_scale = 0.5f;
  Workspace workspace(*network, *NewMathBackend(backend), 8);
  const std::vector<float> statistics = step.statistics;
  const auto loss = [&] {
    // Each time as if it were the first: a step of training moves them.
    std::copy(statistics.begin(), statistics.end(), step.statistics.begin());
    workspace.Forward(step.input, &step.output);
    return step.output.loss_sum * step.input.gradient_scale;
  };
  loss();
  workspace.Backward(&step.output);
  ExpectGradientsMatchDifferences(step, loss);
  ExpectNanReachesTheLoss(step, loss,
                          [&] { workspace.Backward(&step.output); });
}

// A backend with memory of its own that leaves these operations to the host.
TEST_P(ThroughTheHostTest, IsWhatTheHostComputes) {
  const std::unique_ptr<Network> network = NetworkOf(GetParam());
  RandomStep step(ShapeFor(*network, /*several_keys=*/true), kSeed);
  const std::vector<float> statistics = step.statistics;
  const auto run = [&](std::unique_ptr<MathBackend> math) {
    std::copy(statistics.begin(), statistics.end(), step.statistics.begin());
    step.Poison();
    Workspace workspace(*network, std::move(math), 8);
    workspace.Forward(step.input, &step.output);
    workspace.Backward(&step.output);
    return std::tuple(step.output.loss_sum, step.parameter_gradients,
                      step.row_gradients, step.statistics);
  };
  EXPECT_EQ(run(NewReferenceBackend()), run(std::make_unique<FencedBackend>()));
}

// By a network of one layer over inputs of these shapes.
std::string Refusal(const std::vector<Shape>& shapes,
                    std::unique_ptr<Layer> layer) {
  NetworkBuilder b;
  std::vector<NodeId> inputs;
  for (size_t i = 0; i < shapes.size(); ++i) {
    const NodeId x = b.Add("x", NewDenseInput({kDense}), {});
    const NodeId wide =
        Linear(b, "wide" + std::to_string(i), x, shapes[i].size());
    inputs.push_back(
        b.Add("input" + std::to_string(i), NewReshape(shapes[i]), {wide}));
  }
  const NodeId y = b.Add("y", std::move(layer), inputs);
  const absl::Status status =
      b.Build(b.Add("loss", NewSoftmaxCrossEntropy(), {y})).status();
  EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument);
  return std::string(status.message());
}

TEST(InteractionLayersTest, InputsThatDoNotFitAreRefusedWithTheirShapes) {
  EXPECT_EQ(Refusal({{3, 7}}, NewFieldAwareFm()),
            "node \"y\": field_aware_fm got inputs [3, 7], takes one of shape "
            "[fields, fields * width]");
  EXPECT_EQ(Refusal({{7}}, NewTranspose()),
            "node \"y\": transpose got inputs [7], takes one of shape [rows, "
            "columns]");
  EXPECT_EQ(Refusal({{7}}, NewPairwiseDots({4})),
            "node \"y\": pairwise_dots got inputs [7], takes one of two or "
            "more vectors of its width");
  EXPECT_EQ(Refusal({{2, 8}}, NewSelfAttention({2})),
            "node \"y\": self_attention got inputs [2, 8], takes one of shape "
            "[rows, 3 * heads * width]");
  EXPECT_EQ(Refusal({{2, 8}}, NewReshape({3, 5})),
            "node \"y\": reshape got inputs [2, 8], takes one of the size of "
            "its shape");
  EXPECT_EQ(Refusal({{2, 8}}, NewBatchNorm({.decay = 2})),
            "node \"y\": batch_norm got epsilon 1e-05 and decay 2; legal are "
            "more than 0, and 0 to 1: correct them");
}

}  // namespace
}  // namespace oarlock::nn
