// A network in bfloat16 is the network whose products round their operands:
// compared with the reference loops on operands rounded here. (Compared with
// exact operands the gradients differ by much more: a unit that is within
// rounding of its ReLU's kink changes sides, and a share f of such units moves
// the gradient by about sqrt(f) of its length.)

#include <gtest/gtest.h>

#include <bit>
#include <cmath>
#include <cstdint>
#include <memory>
#include <vector>

#include "nn/backends/backends.h"
#include "nn/layers.h"
#include "nn/network.h"
#include "nn/workspace.h"
#include "tests/nn/fenced_backend.h"
#include "tests/nn/step_fixture.h"

namespace oarlock::nn {
namespace {

constexpr uint64_t kSeed = 29;

float Rounded(float x) {
  const uint32_t bits = std::bit_cast<uint32_t>(x);
  const uint32_t odd = (bits >> 16) & 1;
  return std::bit_cast<float>((bits + 0x7fff + odd) & 0xffff0000u);
}

class RoundingBackend final : public FencedBackend {
 public:
  void MatMul(size_t m, size_t n, size_t k, Matrix a, Matrix b, Write write,
              float* c, size_t c_stride) override {
    constexpr size_t kNotRounded = 4;
    if (n <= kNotRounded || (k <= kNotRounded && !a.transposed)) {
      return FencedBackend::MatMul(m, n, k, a, b, write, c, c_stride);
    }
    const BackendArray rounded_a = Round(m, k, a);
    const BackendArray rounded_b = Round(k, n, b);
    FencedBackend::MatMul(m, n, k, {rounded_a.floats(), k},
                          {rounded_b.floats(), n}, write, c, c_stride);
  }

 private:
  BackendArray Round(size_t rows, size_t cols, const Matrix& x) {
    BackendArray result(this, rows * cols * sizeof(float));
    for (size_t i = 0; i < rows; ++i) {
      for (size_t j = 0; j < cols; ++j) {
        result.floats()[i * cols + j] = Rounded(
            x.transposed ? x.data[j * x.stride + i] : x.data[i * x.stride + j]);
      }
    }
    return result;
  }
};

// CTR-DNN's.
std::unique_ptr<Network> NewNetwork() {
  NetworkBuilder b;
  const NodeId rows = b.Add(
      "rows", NewEmbedding({.num_slots = 26, .row_dim = 10, .width = 10}), {});
  const NodeId dense = b.Add("dense", NewDenseInput({13}), {});
  NodeId x = b.Add("features", NewConcat(), {rows, dense});
  for (const char* name : {"fc1", "fc2", "fc3"}) {
    LinearOptions options;
    options.num_outputs = 400;
    options.activation = Activation::kRelu;
    x = b.Add(name, NewLinear(options), {x});
  }
  LinearOptions out;
  out.num_outputs = 2;
  const NodeId logits = b.Add("out", NewLinear(out), {x});
  auto network = b.Build(b.Add("loss", NewSoftmaxCrossEntropy(), {logits}));
  EXPECT_TRUE(network.ok()) << network.status();
  return *std::move(network);
}

// Length of a - b over that of a.
double RelativeDistance(const std::vector<float>& a,
                        const std::vector<float>& b) {
  double difference = 0, length = 0;
  for (size_t i = 0; i < a.size(); ++i) {
    difference += (double{a[i]} - b[i]) * (double{a[i]} - b[i]);
    length += double{a[i]} * a[i];
  }
  return std::sqrt(difference / length);
}

TEST(Bfloat16NetworkTest, IsTheNetworkOfRoundedOperands) {
  auto math = NewMathBackend("onednn_bfloat16");
  if (!math.ok()) GTEST_SKIP() << math.status();
  const std::unique_ptr<Network> network = NewNetwork();
  StepShape shape;
  shape.num_examples = 17;
  shape.num_dense = 13;
  shape.num_slots = 26;
  shape.row_dims = network->row_dims();
  shape.num_rows = 200;
  shape.num_parameters = network->num_parameters();
  RandomStep step(shape, kSeed);
  for (float& x : step.parameters) x *= 0.08f;
  Workspace oracle(*network, std::make_unique<RoundingBackend>(), 20);
  oracle.Forward(step.input, &step.output);
  const double loss = step.output.loss_sum;
  oracle.Backward(&step.output);
  const std::vector<float> parameters = step.parameter_gradients;
  const std::vector<float> rows = step.row_gradients[0];

  step.Poison();
  Workspace workspace(*network, *std::move(math), 20);
  workspace.Forward(step.input, &step.output);
  workspace.Backward(&step.output);
  // Sums in another order: an operand in ten thousand rounds the other way.
  EXPECT_NEAR(step.output.loss_sum, loss, 1e-4 * loss) << "seed " << kSeed;
  EXPECT_LE(RelativeDistance(parameters, step.parameter_gradients), 1e-3)
      << "seed " << kSeed;
  EXPECT_LE(RelativeDistance(rows, step.row_gradients[0]), 1e-3)
      << "seed " << kSeed;
}

}  // namespace
}  // namespace oarlock::nn
