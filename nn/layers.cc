#include "nn/layers.h"

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/str_cat.h"
#include "absl/types/span.h"
#include "base/random.h"
#include "nn/shape_mismatch.h"

namespace oarlock::nn {
namespace {

class Concat final : public Layer {
 public:
  const char* kind() const override { return "concat"; }
  std::optional<std::vector<LayerOption>> ExportedOptions() const override {
    return std::vector<LayerOption>{};
  }
  absl::StatusOr<Shape> OutputShape(
      absl::Span<const Shape> inputs) const override {
    if (inputs.empty()) return ShapeMismatch(*this, inputs, "one or more");
    return Shape{TotalSize(inputs)};
  }
  size_t OutputGradientWidth(
      absl::Span<const Shape> inputs,
      absl::Span<const size_t> input_widths) const override {
    size_t end = 0;
    size_t width = 0;
    for (size_t i = 0; i < inputs.size(); ++i) {
      end += inputs[i].size();
      if (input_widths[i] > 0) width = end;
    }
    return width;
  }
  bool is_concatenation() const override { return true; }
  void Forward(const ForwardArgs& args) const override {
    const size_t total = TotalSize(args.shapes);
    float* to = args.output;
    for (size_t i = 0; i < args.inputs.size(); ++i) {
      const size_t size = args.shapes[i].size();
      const bool in_place = args.inputs[i] == to;
      if (!in_place) {
        args.math.CopyColumns(args.step.num_examples, size, args.inputs[i],
                              size, Write::kOverwrite, to, total);
      }
      to += size;
    }
  }
  void Backward(const BackwardArgs& args) const override {
    const float* from = args.output_gradient;
    for (size_t i = 0; i < args.inputs.size(); ++i) {
      const GradientTarget& target = args.input_gradients[i];
      const bool in_place = target.data == from;
      if (target.data != nullptr && !in_place) {
        args.math.CopyColumns(args.step.num_examples, target.width, from,
                              args.output_gradient_width, target.write,
                              target.data, target.width);
      }
      from += args.shapes[i].size();
    }
  }

 private:
  static size_t TotalSize(absl::Span<const Shape> inputs) {
    size_t total = 0;
    for (const Shape& input : inputs) total += input.size();
    return total;
  }
};

class Linear final : public Layer {
 public:
  explicit Linear(const LinearOptions& options) : options_(options) {}
  const char* kind() const override { return "linear"; }
  std::optional<std::vector<LayerOption>> ExportedOptions() const override {
    return std::vector<LayerOption>{
        {"activation",
         std::string(options_.activation == Activation::kRelu ? "relu"
                                                              : "none")}};
  }
  absl::StatusOr<Shape> OutputShape(
      absl::Span<const Shape> inputs) const override {
    if (inputs.size() != 1 || inputs[0].size() == 0) {
      return ShapeMismatch(*this, inputs, "one that is not empty");
    }
    if (options_.activation != Activation::kNone && !options_.bias) {
      return absl::InvalidArgumentError(
          "linear got an activation and no bias; legal is an activation with "
          "a bias: add the activation as a layer of its own");
    }
    return Shape{options_.num_outputs};
  }
  std::vector<LayerParameter> Parameters(
      absl::Span<const Shape> inputs) const override {
    const size_t num_inputs = inputs[0].size();
    const ParameterInit init =
        InitOf(options_.weight_start, num_inputs, options_.num_outputs);
    std::vector<LayerParameter> parameters = {
        {"weight", {num_inputs, options_.num_outputs}, init}};
    if (options_.bias) {
      parameters.push_back(
          {"bias",
           {options_.num_outputs},
           {ParameterInit::Kind::kConstant, options_.bias_init}});
    }
    return parameters;
  }
  bool CanNarrowGradient() const override { return true; }
  size_t ScratchFloats(const MathBackend& math, absl::Span<const Shape> inputs,
                       size_t max_examples) const override {
    return math.LinearScratch(max_examples, inputs[0].size(),
                              options_.num_outputs);
  }
  void Forward(const ForwardArgs& args) const override {
    args.math.Linear(Args(args), args.output);
  }
  void Backward(const BackwardArgs& args) const override {
    LinearGradients gradients;
    gradients.dy = args.output_gradient;
    gradients.parameter_write = args.parameter_write;
    gradients.dweight = args.parameter_gradients[0];
    if (options_.bias) gradients.dbias = args.parameter_gradients[1];
    gradients.dx = args.input_gradients[0].data;
    gradients.dx_width = args.input_gradients[0].width;
    gradients.dx_write = args.input_gradients[0].write;
    args.math.LinearBackward(Args(args), args.output, gradients);
  }

 private:
  // Converts ForwardArgs or BackwardArgs.
  template <typename LayerArgs>
  LinearArgs Args(const LayerArgs& args) const {
    LinearArgs linear;
    linear.rows = args.step.num_examples;
    linear.inputs = args.shapes[0].size();
    linear.outputs = options_.num_outputs;
    linear.activation = options_.activation;
    linear.x = args.inputs[0];
    linear.weight = args.parameters[0];
    linear.bias = options_.bias ? args.parameters[1] : nullptr;
    linear.scratch = args.scratch;
    return linear;
  }

  const LinearOptions options_;
};

class Bias final : public Layer {
 public:
  const char* kind() const override { return "bias"; }
  std::optional<std::vector<LayerOption>> ExportedOptions() const override {
    return std::vector<LayerOption>{};
  }
  absl::StatusOr<Shape> OutputShape(
      absl::Span<const Shape> inputs) const override {
    if (inputs.size() != 1) return ShapeMismatch(*this, inputs, "one");
    return inputs[0];
  }
  std::vector<LayerParameter> Parameters(
      absl::Span<const Shape> inputs) const override {
    return {{"bias", inputs[0].dims(), {}}};
  }
  void Forward(const ForwardArgs& args) const override {
    const size_t size = args.shapes[0].size();
    args.math.CopyColumns(args.step.num_examples, size, args.inputs[0], size,
                          Write::kOverwrite, args.output, size);
    args.math.AddBias(args.step.num_examples, size, args.parameters[0],
                      Activation::kNone, args.output);
  }
  void Backward(const BackwardArgs& args) const override {
    const size_t size = args.shapes[0].size();
    args.math.AddBiasBackward(args.step.num_examples, size, nullptr,
                              Activation::kNone, args.output_gradient,
                              args.parameter_write,
                              args.parameter_gradients[0]);
    const GradientTarget& dx = args.input_gradients[0];
    if (dx.data != nullptr) {
      args.math.CopyColumns(args.step.num_examples, size, args.output_gradient,
                            size, dx.write, dx.data, size);
    }
  }
};

class Flatten final : public Layer {
 public:
  const char* kind() const override { return "flatten"; }
  std::optional<std::vector<LayerOption>> ExportedOptions() const override {
    return std::vector<LayerOption>{};
  }
  absl::StatusOr<Shape> OutputShape(
      absl::Span<const Shape> inputs) const override {
    if (inputs.size() != 1) return ShapeMismatch(*this, inputs, "one");
    return Shape{inputs[0].size()};
  }
  bool is_view() const override { return true; }
  void Forward(const ForwardArgs& args) const override {}
  void Backward(const BackwardArgs& args) const override {}
};

class Dropout final : public Layer {
 public:
  explicit Dropout(const DropoutOptions& options) : options_(options) {}
  const char* kind() const override { return "dropout"; }
  std::optional<std::vector<LayerOption>> ExportedOptions() const override {
    return std::vector<LayerOption>{};
  }
  absl::StatusOr<Shape> OutputShape(
      absl::Span<const Shape> inputs) const override {
    if (inputs.size() != 1) return ShapeMismatch(*this, inputs, "one");
    if (!(options_.rate >= 0 && options_.rate < 1)) {
      return absl::InvalidArgumentError(
          absl::StrCat("dropout got rate ", options_.rate,
                       "; legal is 0 or more and less than 1: correct it"));
    }
    return inputs[0];
  }
  bool learns_in_training_only() const override { return true; }
  void Forward(const ForwardArgs& args) const override {
    const size_t size = args.step.num_examples * args.shapes[0].size();
    if (args.step.training) {
      args.math.Dropout(size, options_.rate, Seed(args), args.inputs[0],
                        Write::kOverwrite, args.output);
    } else {
      args.math.CopyColumns(1, size, args.inputs[0], size, Write::kOverwrite,
                            args.output, size);
    }
  }
  void Backward(const BackwardArgs& args) const override {
    const GradientTarget& dx = args.input_gradients[0];
    if (dx.data == nullptr) return;
    args.math.Dropout(args.step.num_examples * args.shapes[0].size(),
                      options_.rate, Seed(args), args.output_gradient, dx.write,
                      dx.data);
  }

 private:
  template <typename LayerArgs>
  static uint64_t Seed(const LayerArgs& args) {
    return DeriveSeed(args.step.random_seed, args.node);
  }

  const DropoutOptions options_;
};

class Relu final : public Layer {
 public:
  const char* kind() const override { return "relu"; }
  std::optional<std::vector<LayerOption>> ExportedOptions() const override {
    return std::vector<LayerOption>{};
  }
  absl::StatusOr<Shape> OutputShape(
      absl::Span<const Shape> inputs) const override {
    if (inputs.size() != 1) return ShapeMismatch(*this, inputs, "one");
    return inputs[0];
  }
  void Forward(const ForwardArgs& args) const override {
    args.math.Relu(args.step.num_examples * args.shapes[0].size(),
                   args.inputs[0], args.output);
  }
  void Backward(const BackwardArgs& args) const override {
    const GradientTarget& dx = args.input_gradients[0];
    if (dx.data == nullptr) return;
    args.math.ReluBackward(args.step.num_examples * args.shapes[0].size(),
                           args.output, args.output_gradient, dx.write,
                           dx.data);
  }
};

class Add final : public Layer {
 public:
  const char* kind() const override { return "add"; }
  std::optional<std::vector<LayerOption>> ExportedOptions() const override {
    return std::vector<LayerOption>{};
  }
  absl::StatusOr<Shape> OutputShape(
      absl::Span<const Shape> inputs) const override {
    bool same = !inputs.empty();
    for (const Shape& input : inputs) same &= input == inputs[0];
    if (!same) {
      return ShapeMismatch(*this, inputs, "one or more of the same shape");
    }
    return inputs[0];
  }
  void Forward(const ForwardArgs& args) const override {
    const size_t size = args.shapes[0].size();
    for (size_t i = 0; i < args.inputs.size(); ++i) {
      args.math.CopyColumns(args.step.num_examples, size, args.inputs[i], size,
                            i == 0 ? Write::kOverwrite : Write::kAdd,
                            args.output, size);
    }
  }
  void Backward(const BackwardArgs& args) const override {
    const size_t size = args.shapes[0].size();
    for (const GradientTarget& dx : args.input_gradients) {
      if (dx.data == nullptr) continue;
      args.math.CopyColumns(args.step.num_examples, size, args.output_gradient,
                            size, dx.write, dx.data, size);
    }
  }
};

class SumColumns final : public Layer {
 public:
  const char* kind() const override { return "sum_columns"; }
  std::optional<std::vector<LayerOption>> ExportedOptions() const override {
    return std::vector<LayerOption>{};
  }
  absl::StatusOr<Shape> OutputShape(
      absl::Span<const Shape> inputs) const override {
    if (inputs.size() != 1) return ShapeMismatch(*this, inputs, "one");
    return Shape{1};
  }
  void Forward(const ForwardArgs& args) const override {
    args.math.SumColumns(args.step.num_examples, args.shapes[0].size(),
                         args.inputs[0], args.output);
  }
  void Backward(const BackwardArgs& args) const override {
    const GradientTarget& dx = args.input_gradients[0];
    if (dx.data == nullptr) return;
    args.math.SumColumnsBackward(args.step.num_examples, args.shapes[0].size(),
                                 args.output_gradient, dx.write, dx.data);
  }
};

class FmSecondOrder final : public Layer {
 public:
  const char* kind() const override { return "fm_second_order"; }
  std::optional<std::vector<LayerOption>> ExportedOptions() const override {
    return std::vector<LayerOption>{};
  }
  absl::StatusOr<Shape> OutputShape(
      absl::Span<const Shape> inputs) const override {
    if (inputs.size() != 1 || inputs[0].rank() != 2) {
      return ShapeMismatch(*this, inputs, "one of shape [num_vectors, width]");
    }
    return Shape{1};
  }
  size_t ScratchFloats(const MathBackend& math, absl::Span<const Shape> inputs,
                       size_t max_examples) const override {
    return max_examples * inputs[0][1];
  }
  void Forward(const ForwardArgs& args) const override {
    const FmShape shape = {args.step.num_examples, args.shapes[0][0],
                           args.shapes[0][1]};
    args.math.FmSecondOrder(shape, args.inputs[0], args.scratch, args.output);
  }
  void Backward(const BackwardArgs& args) const override {
    const GradientTarget& dv = args.input_gradients[0];
    if (dv.data == nullptr) return;
    const FmShape shape = {args.step.num_examples, args.shapes[0][0],
                           args.shapes[0][1]};
    args.math.FmSecondOrderBackward(shape, args.inputs[0], args.scratch,
                                    args.output_gradient, dv.write, dv.data);
  }
};

}  // namespace

std::unique_ptr<Layer> NewConcat() { return std::make_unique<Concat>(); }
std::unique_ptr<Layer> NewLinear(const LinearOptions& options) {
  return std::make_unique<Linear>(options);
}
std::unique_ptr<Layer> NewBias() { return std::make_unique<Bias>(); }
std::unique_ptr<Layer> NewFlatten() { return std::make_unique<Flatten>(); }
std::unique_ptr<Layer> NewDropout(const DropoutOptions& options) {
  return std::make_unique<Dropout>(options);
}
std::unique_ptr<Layer> NewRelu() { return std::make_unique<Relu>(); }
std::unique_ptr<Layer> NewAdd() { return std::make_unique<Add>(); }
std::unique_ptr<Layer> NewSumColumns() {
  return std::make_unique<SumColumns>();
}
std::unique_ptr<Layer> NewFmSecondOrder() {
  return std::make_unique<FmSecondOrder>();
}

}  // namespace oarlock::nn
