// Every kind of layer, alone and in graphs, against finite differences, on
// every backend, with one key and with several keys per slot.

#include "nn/layers.h"

#include <gtest/gtest.h>

#include <functional>
#include <memory>
#include <string>
#include <tuple>
#include <vector>

#include "nn/backends/backends.h"
#include "nn/network.h"
#include "nn/workspace.h"
#include "tests/nn/step_fixture.h"

namespace oarlock::nn {
namespace {

constexpr size_t kSlots = 3;
constexpr size_t kRowDim = 4;
constexpr size_t kDense = 5;

// A graph over an embedding [kSlots, kRowDim] and kDense dense features, up to
// the loss.
struct Graph {
  std::string name;
  size_t num_classes;
  std::function<NodeId(NetworkBuilder&, NodeId rows, NodeId dense)> build;
  // The second sparse input has rows of this size, if it is not 0.
  size_t second_row_dim = 0;
  bool reads_dense = true;
};

NodeId Linear(NetworkBuilder& b, const std::string& name, NodeId x,
              size_t num_outputs, Activation activation = Activation::kNone,
              bool bias = true) {
  LinearOptions options;
  options.num_outputs = num_outputs;
  options.activation = activation;
  options.bias = bias;
  return b.Add(name, NewLinear(options), {x});
}

NodeId Loss(NetworkBuilder& b, NodeId logits) {
  return b.Add("loss", NewSoftmaxCrossEntropy(), {logits});
}

NodeId Finish(NetworkBuilder& b, NodeId x, NodeId dense) {
  const NodeId all = b.Add("all", NewConcat(), {x, dense});
  return Loss(b, Linear(b, "out", all, 2));
}

std::vector<Graph> Graphs() {
  std::vector<Graph> graphs;
  graphs.push_back({"linear", 2, [](auto& b, NodeId rows, NodeId dense) {
                      return Finish(b, Linear(b, "fc", rows, 3), dense);
                    }});
  graphs.push_back(
      {"linear_without_bias", 2, [](auto& b, NodeId rows, NodeId dense) {
         return Finish(b, Linear(b, "fc", rows, 3, Activation::kNone, false),
                       dense);
       }});
  graphs.push_back(
      {"linear_relu", 2, [](auto& b, NodeId rows, NodeId dense) {
         return Finish(b, Linear(b, "fc", rows, 6, Activation::kRelu), dense);
       }});
  graphs.push_back({"bias", 2, [](auto& b, NodeId rows, NodeId dense) {
                      return Finish(b, b.Add("bias", NewBias(), {rows}), dense);
                    }});
  graphs.push_back({"relu", 2, [](auto& b, NodeId rows, NodeId dense) {
                      return Finish(b, b.Add("relu", NewRelu(), {rows}), dense);
                    }});
  graphs.push_back(
      {"add", 2, [](auto& b, NodeId rows, NodeId dense) {
         const NodeId fc = Linear(b, "fc", rows, kDense);
         const NodeId sum = b.Add("add", NewAdd(), {fc, dense, fc});
         return Loss(b, Linear(b, "out", sum, 2));
       }});
  graphs.push_back({"sum_columns", 2, [](auto& b, NodeId rows, NodeId dense) {
                      return Finish(b, b.Add("sum", NewSumColumns(), {rows}),
                                    dense);
                    }});
  graphs.push_back({"fm", 2, [](auto& b, NodeId rows, NodeId dense) {
                      return Finish(b, b.Add("fm", NewFmSecondOrder(), {rows}),
                                    dense);
                    }});
  graphs.push_back(
      {"many_classes", 7, [](auto& b, NodeId rows, NodeId dense) {
         const NodeId all = b.Add("all", NewConcat(), {rows, dense});
         return Loss(b, Linear(b, "out", all, 7));
       }});
  graphs.push_back(
      {"sigmoid", 2, [](auto& b, NodeId rows, NodeId dense) {
         const NodeId all = b.Add("all", NewConcat(), {rows, dense});
         return b.Add("loss", NewSigmoidCrossEntropy(),
                      {Linear(b, "out", all, 1)});
       }});
  // What needs no gradient lies before, between and behind what does.
  graphs.push_back(
      {"concat_in_any_order", 2, [](auto& b, NodeId rows, NodeId dense) {
         const NodeId all =
             b.Add("all", NewConcat(), {dense, rows, dense, rows, dense});
         return Loss(b, Linear(b, "out", all, 2));
       }});
  // One reader of the concatenation can leave out the dense part's gradient,
  // the other cannot.
  graphs.push_back(
      {"concat_with_two_readers", 2, [](auto& b, NodeId rows, NodeId dense) {
         const NodeId all = b.Add("all", NewConcat(), {rows, dense});
         const NodeId relu = b.Add("relu", NewRelu(), {all});
         const NodeId sum =
             b.Add("sum", NewAdd(),
                   {Linear(b, "a", all, 2), Linear(b, "b", relu, 2)});
         return Loss(b, sum);
       }});
  graphs.push_back(
      {"tensor_with_four_readers", 2, [](auto& b, NodeId rows, NodeId dense) {
         const NodeId fc = Linear(b, "fc", rows, 6);
         const NodeId relu = b.Add("relu", NewRelu(), {fc});
         const NodeId bias = b.Add("bias", NewBias(), {fc});
         const NodeId total = b.Add("total", NewSumColumns(), {fc});
         const NodeId all =
             b.Add("some", NewConcat(), {relu, bias, total, fc, rows});
         return Finish(b, all, dense);
       }});
  graphs.push_back(
      {"two_losses_of_the_same_logits", 2,
       [](auto& b, NodeId rows, NodeId dense) {
         const NodeId all = b.Add("all", NewConcat(), {rows, dense});
         const NodeId logits = Linear(b, "out", all, 2);
         const NodeId sum = b.Add("sum", NewSumColumns(), {logits});
         b.Add("other_loss", NewSigmoidCrossEntropy(), {sum});
         b.Add("third_loss", NewSoftmaxCrossEntropy(), {logits});
         return Loss(b, logits);
       }});
  graphs.push_back(
      {"two_embeddings_of_one_row", 2, [](auto& b, NodeId rows, NodeId dense) {
         const NodeId part = b.Add("part",
                                   NewEmbedding({.num_slots = kSlots,
                                                 .row_dim = kRowDim,
                                                 .column_begin = 1,
                                                 .width = 2}),
                                   {});
         const NodeId fm = b.Add("fm", NewFmSecondOrder(), {part});
         return Finish(b, b.Add("both", NewConcat(), {rows, fm, part}), dense);
       }});
  graphs.push_back(
      {"two_sparse_inputs", 2,
       [](auto& b, NodeId rows, NodeId dense) {
         const NodeId other = b.Add("other",
                                    NewEmbedding({
                                        .sparse_input = 1,
                                        .num_slots = kSlots,
                                        .row_dim = 2,
                                        .width = 2,
                                    }),
                                    {});
         return Finish(b, b.Add("both", NewConcat(), {rows, other}), dense);
       },
       2});
  return graphs;
}

class LayerGradientTest
    : public ::testing::TestWithParam<std::tuple<Graph, std::string, bool>> {};

INSTANTIATE_TEST_SUITE_P(
    All, LayerGradientTest,
    ::testing::Combine(::testing::ValuesIn(Graphs()),
                       ::testing::Values("reference", "onednn"),
                       ::testing::Bool()),
    [](const auto& info) {
      return std::get<0>(info.param).name + "_" + std::get<1>(info.param) +
             (std::get<2>(info.param) ? "_several_keys" : "_one_key");
    });

TEST_P(LayerGradientTest, MatchesFiniteDifferences) {
  const auto& [graph, backend, several_keys] = GetParam();
  constexpr uint64_t kSeed = 7;
  SCOPED_TRACE(testing::Message() << "seed " << kSeed);
  NetworkBuilder builder;
  const NodeId rows = builder.Add(
      "rows",
      NewEmbedding({.num_slots = kSlots, .row_dim = kRowDim, .width = kRowDim}),
      {});
  const NodeId dense = builder.Add("dense", NewDenseInput({kDense}), {});
  const auto network = builder.Build(graph.build(builder, rows, dense));
  ASSERT_TRUE(network.ok()) << network.status();

  StepShape shape;
  shape.num_examples = 5;
  shape.num_dense = kDense;
  shape.num_classes = graph.num_classes;
  shape.num_slots = kSlots;
  shape.row_dims = (*network)->row_dims();
  shape.num_parameters = (*network)->num_parameters();
  shape.several_keys = several_keys;
  RandomStep step(shape, kSeed);
  step.input.gradient_scale = 0.5f;
  // Room for more than the batch, as training has.
  Workspace workspace(**network, *NewMathBackend(backend), 8);
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

// A network of one layer under test and what makes it complete.
absl::Status BuildStatus(
    const std::function<NodeId(NetworkBuilder&)>& add_logits) {
  NetworkBuilder builder;
  const NodeId logits = add_logits(builder);
  return builder.Build(builder.Add("loss", NewSoftmaxCrossEntropy(), {logits}))
      .status();
}

TEST(LayersTest, InputsThatDoNotFitAreRefusedWithTheirShapes) {
  const auto dense = [](NetworkBuilder& b, const char* name, Shape shape) {
    return b.Add(name, NewDenseInput(std::move(shape)), {});
  };
  absl::Status status = BuildStatus([&](NetworkBuilder& b) {
    return b.Add("fm", NewFmSecondOrder(), {dense(b, "x", {6})});
  });
  EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument);
  EXPECT_EQ(status.message(),
            "node \"fm\": fm_second_order got inputs [6], takes one of shape "
            "[num_vectors, width]");

  status = BuildStatus([&](NetworkBuilder& b) {
    return b.Add("sum", NewAdd(), {dense(b, "x", {6}), dense(b, "y", {2, 3})});
  });
  EXPECT_EQ(status.message(),
            "node \"sum\": add got inputs [6] [2, 3], takes one or more of "
            "the same shape");

  status = BuildStatus([&](NetworkBuilder& b) { return dense(b, "x", {1}); });
  EXPECT_EQ(status.message(),
            "node \"loss\": softmax_cross_entropy got inputs [1], takes one "
            "of two or more classes");

  status = BuildStatus([&](NetworkBuilder& b) {
    return b.Add(
        "e",
        NewEmbedding(
            {.num_slots = 2, .row_dim = 4, .column_begin = 3, .width = 2}),
        {});
  });
  EXPECT_NE(status.message().find("columns 3 to 5 of rows of 4"),
            std::string::npos)
      << status;
}

TEST(LayersTest, ImageOfThreeDimensionsIsFlattenedByLinear) {
  NetworkBuilder builder;
  const NodeId image = builder.Add("image", NewDenseInput({3, 4, 5}), {});
  const NodeId loss = builder.Add("loss", NewSoftmaxCrossEntropy(),
                                  {Linear(builder, "out", image, 10)});
  const auto network = builder.Build(loss);
  ASSERT_TRUE(network.ok()) << network.status();
  EXPECT_EQ((*network)->num_dense(), 60u);
  EXPECT_EQ((*network)->num_parameters(), 610u);
}

}  // namespace
}  // namespace oarlock::nn
