// The last layers of networks: the losses.

#include <memory>
#include <optional>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "nn/layers.h"
#include "nn/shape_mismatch.h"

namespace oarlock::nn {
namespace {

class SoftmaxCrossEntropy final : public Layer {
 public:
  const char* kind() const override { return "softmax_cross_entropy"; }
  std::optional<std::vector<LayerOption>> ExportedOptions() const override {
    return std::vector<LayerOption>{};
  }
  absl::StatusOr<Shape> OutputShape(
      absl::Span<const Shape> inputs) const override {
    if (inputs.size() != 1 || inputs[0].size() < 2) {
      return ShapeMismatch(*this, inputs, "one of two or more classes");
    }
    return Shape{inputs[0].size()};
  }
  bool is_loss() const override { return true; }
  void Forward(const ForwardArgs& args) const override {
    args.math.SoftmaxCrossEntropy(args.step.num_examples, args.shapes[0].size(),
                                  args.inputs[0], args.step.labels, args.output,
                                  args.loss_sum);
  }
  void Backward(const BackwardArgs& args) const override {
    const GradientTarget& dx = args.input_gradients[0];
    if (dx.data == nullptr) return;
    args.math.SoftmaxCrossEntropyBackward(
        args.step.num_examples, args.shapes[0].size(), args.output,
        args.step.labels, args.step.gradient_scale, dx.write, dx.data);
  }
};

class SigmoidCrossEntropy final : public Layer {
 public:
  const char* kind() const override { return "sigmoid_cross_entropy"; }
  std::optional<std::vector<LayerOption>> ExportedOptions() const override {
    return std::vector<LayerOption>{};
  }
  absl::StatusOr<Shape> OutputShape(
      absl::Span<const Shape> inputs) const override {
    if (inputs.size() != 1 || inputs[0].size() != 1) {
      return ShapeMismatch(*this, inputs, "one of one float");
    }
    return Shape{1};
  }
  bool is_loss() const override { return true; }
  void Forward(const ForwardArgs& args) const override {
    args.math.SigmoidCrossEntropy(args.step.num_examples, args.inputs[0],
                                  args.step.labels, args.output, args.loss_sum);
  }
  void Backward(const BackwardArgs& args) const override {
    const GradientTarget& dx = args.input_gradients[0];
    if (dx.data == nullptr) return;
    args.math.SigmoidCrossEntropyBackward(
        args.step.num_examples, args.output, args.step.labels,
        args.step.gradient_scale, dx.write, dx.data);
  }
};

}  // namespace

std::unique_ptr<Layer> NewSoftmaxCrossEntropy() {
  return std::make_unique<SoftmaxCrossEntropy>();
}
std::unique_ptr<Layer> NewSigmoidCrossEntropy() {
  return std::make_unique<SigmoidCrossEntropy>();
}

}  // namespace oarlock::nn
