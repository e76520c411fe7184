#include "nn/workspace.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <memory>
#include <utility>
#include <vector>

#include "nn/layers.h"
#include "nn/network.h"
#include "nn/reference/reference_backend.h"
#include "tests/nn/fenced_backend.h"
#include "tests/nn/step_fixture.h"

namespace oarlock::nn {
namespace {

constexpr size_t kMaxExamples = 6;
constexpr size_t kSlots = 3;
constexpr size_t kDense = 5;

// Every kind of layer once.
std::unique_ptr<Network> NewNetwork(size_t num_classes) {
  NetworkBuilder b;
  LinearOptions fc, out;
  fc.num_outputs = 6;
  fc.activation = Activation::kRelu;
  out.num_outputs = num_classes;
  const NodeId rows =
      b.Add("rows",
            NewEmbedding({.num_slots = kSlots, .row_dim = 4, .width = 4}), {});
  const NodeId dense = b.Add("dense", NewDenseInput({kDense}), {});
  const NodeId fm = b.Add("fm", NewFmSecondOrder(), {rows});
  const NodeId sum = b.Add("sum", NewSumColumns(), {rows});
  const NodeId both = b.Add("both", NewAdd(), {fm, sum});
  const NodeId relu = b.Add("relu", NewRelu(), {rows});
  // Read by the concatenation alone.
  const NodeId part = b.Add(
      "part",
      NewEmbedding(
          {.num_slots = kSlots, .row_dim = 4, .column_begin = 1, .width = 2}),
      {});
  const NodeId all = b.Add("all", NewConcat(), {relu, part, both, dense});
  const NodeId hidden = b.Add("fc", NewLinear(fc), {all});
  const NodeId bias = b.Add("bias", NewBias(), {hidden});
  const NodeId logits = b.Add("out", NewLinear(out), {bias});
  b.Add("other_loss", NewSigmoidCrossEntropy(), {both});
  auto network = b.Build(b.Add("loss", NewSoftmaxCrossEntropy(), {logits}));
  EXPECT_TRUE(network.ok()) << network.status();
  return *std::move(network);
}

StepShape ShapeFor(const Network& network, size_t num_examples,
                   bool several_keys) {
  StepShape shape;
  shape.num_examples = num_examples;
  shape.num_dense = kDense;
  shape.num_slots = kSlots;
  shape.row_dims = network.row_dims();
  shape.num_parameters = network.num_parameters();
  shape.several_keys = several_keys;
  return shape;
}

struct Result {
  double loss_sum;
  std::vector<float> predictions, row_gradients, parameter_gradients;
};

Result RunStep(Workspace& workspace, RandomStep& step, bool whole = false) {
  step.Poison();
  if (whole) {
    workspace.Step(step.input, &step.output);
  } else {
    workspace.Forward(step.input, &step.output);
    workspace.Backward(&step.output);
  }
  return {step.output.loss_sum,
          {step.output.predictions.begin(), step.output.predictions.end()},
          step.row_gradients[0],
          step.parameter_gradients};
}

void ExpectSame(const Result& a, const Result& b) {
  EXPECT_EQ(a.loss_sum, b.loss_sum);
  EXPECT_EQ(a.predictions, b.predictions);
  // Finite as well: a NaN would differ from itself.
  EXPECT_EQ(a.row_gradients, b.row_gradients);
  EXPECT_EQ(a.parameter_gradients, b.parameter_gradients);
}

TEST(WorkspaceTest, BackendWithItsOwnMemoryGetsCopiesAndGivesTheSameResult) {
  for (const size_t num_classes : {2, 5}) {
    const std::unique_ptr<Network> network = NewNetwork(num_classes);
    Workspace host(*network, NewReferenceBackend(), kMaxExamples);
    Workspace fenced(*network, std::make_unique<FencedBackend>(), kMaxExamples);
    for (const bool several_keys : {false, true}) {
      // Growing, so that copies must grow too.
      for (const size_t num_examples : {1, 6, 3, 0}) {
        RandomStep step(ShapeFor(*network, num_examples, several_keys), 3);
        ExpectSame(RunStep(host, step), RunStep(fenced, step));
      }
    }
  }
}

TEST(WorkspaceTest, AStepIsForwardAndBackward) {
  for (const size_t num_classes : {2, 5}) {
    const std::unique_ptr<Network> network = NewNetwork(num_classes);
    Workspace halves(*network, std::make_unique<FencedBackend>(), kMaxExamples);
    Workspace whole(*network, std::make_unique<FencedBackend>(), kMaxExamples);
    for (const size_t num_examples : {6, 3, 0}) {
      RandomStep step(ShapeFor(*network, num_examples, true), 3);
      ExpectSame(RunStep(halves, step), RunStep(whole, step, /*whole=*/true));
    }
  }
}

TEST(WorkspaceTest, EarlierBatchesLeaveNoTrace) {
  const std::unique_ptr<Network> network = NewNetwork(2);
  Workspace used(*network, NewReferenceBackend(), kMaxExamples);
  for (const size_t num_examples : {6, 2, 5}) {
    RandomStep step(ShapeFor(*network, num_examples, true), num_examples);
    Workspace fresh(*network, NewReferenceBackend(), kMaxExamples);
    ExpectSame(RunStep(fresh, step), RunStep(used, step));
  }
}

// Batches half of whose rows come from the cache give what they give with all
// rows.
TEST(WorkspaceTest, CachedRowsAreThoseOfEarlierBatches) {
  const std::unique_ptr<Network> network = NewNetwork(2);
  for (const bool own_memory : {false, true}) {
    const auto new_math = [&]() -> std::unique_ptr<MathBackend> {
      if (own_memory) return std::make_unique<FencedBackend>();
      return NewReferenceBackend();
    };
    Workspace plain(*network, new_math(), kMaxExamples);
    Workspace caching(*network, new_math(), kMaxExamples);
    std::vector<std::vector<float>> entries(4);
    for (uint64_t batch = 0; batch < 6; ++batch) {
      RandomStep step(ShapeFor(*network, kMaxExamples, true), 10 + batch);
      const size_t dim = step.shape.row_dims[0];
      const size_t num_rows = step.shape.num_rows;
      std::vector<uint32_t> miss_of_row(num_rows), entry_of_row(num_rows);
      std::vector<float> missed;
      uint32_t num_missed = 0;
      for (size_t r = 0; r < num_rows; ++r) {
        float* const row = step.rows[0].data() + r * dim;
        const size_t entry = (r + batch) % num_rows;
        entry_of_row[r] = entry < entries.size() ? static_cast<uint32_t>(entry)
                                                 : CachedRows::kNone;
        if (entry < entries.size() && !entries[entry].empty() && r % 2 == 0) {
          std::copy(entries[entry].begin(), entries[entry].end(), row);
          miss_of_row[r] = CachedRows::kNone;
          continue;
        }
        miss_of_row[r] = num_missed++;
        missed.insert(missed.end(), row, row + dim);
        if (entry < entries.size()) entries[entry].assign(row, row + dim);
      }
      const Result expected = RunStep(plain, step);
      SparseInput& input = step.input.sparse[0];
      input.rows = missed.data();
      input.cache_rows = entries.size();
      input.num_missed = num_missed;
      input.miss_of_row = miss_of_row;
      input.entry_of_row = entry_of_row;
      ExpectSame(RunStep(caching, step), expected);
    }
  }
}

TEST(WorkspaceTest, EmptyBatchHasNoLossAndZeroGradients) {
  const std::unique_ptr<Network> network = NewNetwork(2);
  Workspace workspace(*network, NewReferenceBackend(), kMaxExamples);
  RandomStep step(ShapeFor(*network, 0, false), 1);
  step.input.labels = step.input.dense = nullptr;
  const Result result = RunStep(workspace, step);
  EXPECT_EQ(result.loss_sum, 0);
  EXPECT_TRUE(result.predictions.empty());
  EXPECT_EQ(result.row_gradients,
            std::vector<float>(result.row_gradients.size(), 0));
  EXPECT_EQ(result.parameter_gradients,
            std::vector<float>(result.parameter_gradients.size(), 0));
}

TEST(WorkspaceTest, PredictionsOfManyClassesAreDistributions) {
  const std::unique_ptr<Network> network = NewNetwork(5);
  Workspace workspace(*network, NewReferenceBackend(), kMaxExamples);
  RandomStep step(ShapeFor(*network, 4, false), 1);
  const Result result = RunStep(workspace, step);
  ASSERT_EQ(result.predictions.size(), 4 * 5u);
  for (size_t i = 0; i < 4; ++i) {
    float sum = 0;
    for (size_t c = 0; c < 5; ++c) sum += result.predictions[i * 5 + c];
    EXPECT_NEAR(sum, 1, 1e-6);
  }
}

TEST(WorkspaceTest, BatchThatDoesNotFitCrashes) {
  const std::unique_ptr<Network> network = NewNetwork(2);
  Workspace workspace(*network, NewReferenceBackend(), kMaxExamples);
  RandomStep step(ShapeFor(*network, kMaxExamples + 1, false), 1);
  EXPECT_DEATH(workspace.Forward(step.input, &step.output), "max_examples");
}

}  // namespace
}  // namespace oarlock::nn
