#include "nn/interaction_layers.h"

#include <algorithm>
#include <cstddef>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "nn/shape_mismatch.h"

namespace oarlock::nn {
namespace {

GradientOut Out(const GradientTarget& target) {
  return {target.data, target.write};
}

class Reshape final : public Layer {
 public:
  explicit Reshape(Shape shape) : shape_(std::move(shape)) {}
  const char* kind() const override { return "reshape"; }
  std::optional<std::vector<LayerOption>> ExportedOptions() const override {
    return std::vector<LayerOption>{};
  }
  absl::StatusOr<Shape> OutputShape(
      absl::Span<const Shape> inputs) const override {
    if (inputs.size() != 1 || inputs[0].size() != shape_.size()) {
      return ShapeMismatch(*this, inputs, "one of the size of its shape");
    }
    return shape_;
  }
  bool is_view() const override { return true; }
  void Forward(const ForwardArgs& args) const override {}
  void Backward(const BackwardArgs& args) const override {}

 private:
  const Shape shape_;
};

class FieldAwareFm final : public Layer {
 public:
  const char* kind() const override { return "field_aware_fm"; }
  std::optional<std::vector<LayerOption>> ExportedOptions() const override {
    return std::vector<LayerOption>{};
  }
  absl::StatusOr<Shape> OutputShape(
      absl::Span<const Shape> inputs) const override {
    if (inputs.size() != 1 || inputs[0].rank() != 2 || inputs[0][0] == 0 ||
        inputs[0][1] % inputs[0][0] != 0) {
      return ShapeMismatch(*this, inputs,
                           "one of shape [fields, fields * width]");
    }
    return Shape{1};
  }
  void Forward(const ForwardArgs& args) const override {
    args.math.FieldAware(ShapeOf(args), args.inputs[0], args.output);
  }
  void Backward(const BackwardArgs& args) const override {
    const GradientTarget& dv = args.input_gradients[0];
    if (dv.data == nullptr) return;
    args.math.FieldAwareBackward(ShapeOf(args), args.inputs[0],
                                 args.output_gradient, dv.write, dv.data);
  }

 private:
  template <typename LayerArgs>
  static FieldAwareShape ShapeOf(const LayerArgs& args) {
    const Shape& input = args.shapes[0];
    return {args.step.num_examples, input[0], input[1] / input[0]};
  }
};

class Cross final : public Layer {
 public:
  const char* kind() const override { return "cross"; }
  std::optional<std::vector<LayerOption>> ExportedOptions() const override {
    return std::vector<LayerOption>{};
  }
  absl::StatusOr<Shape> OutputShape(
      absl::Span<const Shape> inputs) const override {
    if (inputs.size() != 3 || inputs[0] != inputs[2] ||
        (inputs[1].size() != 1 && inputs[1].size() != inputs[0].size())) {
      return ShapeMismatch(
          *this, inputs,
          "three, first and third of the same shape, the second of "
          "its size or one number");
    }
    return inputs[0];
  }
  void Forward(const ForwardArgs& args) const override {
    args.math.Cross(ShapeOf(args), args.inputs[0], args.inputs[1],
                    args.inputs[2], args.output);
  }
  void Backward(const BackwardArgs& args) const override {
    args.math.CrossBackward(ShapeOf(args), args.inputs[0], args.inputs[1],
                            args.output_gradient, Out(args.input_gradients[0]),
                            Out(args.input_gradients[1]));
    const GradientTarget& dx = args.input_gradients[2];
    if (dx.data == nullptr) return;
    const size_t size = args.shapes[2].size();
    args.math.CopyColumns(args.step.num_examples, size, args.output_gradient,
                          size, dx.write, dx.data, size);
  }

 private:
  template <typename LayerArgs>
  static CrossShape ShapeOf(const LayerArgs& args) {
    return {args.step.num_examples, args.shapes[0].size(),
            args.shapes[1].size()};
  }
};

class RowLinear final : public Layer {
 public:
  explicit RowLinear(const RowLinearOptions& options) : options_(options) {}
  const char* kind() const override { return "row_linear"; }
  std::optional<std::vector<LayerOption>> ExportedOptions() const override {
    return std::vector<LayerOption>{
        {"activation",
         std::string(options_.activation == Activation::kRelu ? "relu"
                                                              : "none")}};
  }
  absl::StatusOr<Shape> OutputShape(
      absl::Span<const Shape> inputs) const override {
    if (inputs.size() != 1 || inputs[0].rank() != 2 || inputs[0].size() == 0) {
      return ShapeMismatch(*this, inputs, "one of shape [rows, width]");
    }
    if (options_.activation != Activation::kNone && !options_.bias) {
      return absl::InvalidArgumentError(
          "row_linear got an activation and no bias; legal is an activation "
          "with a bias: add the activation as a layer of its own");
    }
    return Shape{inputs[0][0], options_.num_outputs};
  }
  std::vector<LayerParameter> Parameters(
      absl::Span<const Shape> inputs) const override {
    const size_t width = inputs[0][1];
    std::vector<LayerParameter> parameters = {
        {"weight",
         {width, options_.num_outputs},
         InitOf(options_.weight_start, width, options_.num_outputs)}};
    if (options_.bias) {
      parameters.push_back({"bias", {options_.num_outputs}, {}});
    }
    return parameters;
  }
  size_t ScratchFloats(const MathBackend& math, absl::Span<const Shape> inputs,
                       size_t max_examples) const override {
    return math.LinearScratch(max_examples * inputs[0][0], inputs[0][1],
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
    gradients.dx_width = args.shapes[0][1];
    gradients.dx_write = args.input_gradients[0].write;
    args.math.LinearBackward(Args(args), args.output, gradients);
  }

 private:
  template <typename LayerArgs>
  LinearArgs Args(const LayerArgs& args) const {
    LinearArgs linear;
    linear.rows = args.step.num_examples * args.shapes[0][0];
    linear.inputs = args.shapes[0][1];
    linear.outputs = options_.num_outputs;
    linear.activation = options_.activation;
    linear.x = args.inputs[0];
    linear.weight = args.parameters[0];
    linear.bias = options_.bias ? args.parameters[1] : nullptr;
    linear.scratch = args.scratch;
    return linear;
  }

  const RowLinearOptions options_;
};

class Transpose final : public Layer {
 public:
  const char* kind() const override { return "transpose"; }
  std::optional<std::vector<LayerOption>> ExportedOptions() const override {
    return std::vector<LayerOption>{};
  }
  absl::StatusOr<Shape> OutputShape(
      absl::Span<const Shape> inputs) const override {
    if (inputs.size() != 1 || inputs[0].rank() != 2) {
      return ShapeMismatch(*this, inputs, "one of shape [rows, columns]");
    }
    return Shape{inputs[0][1], inputs[0][0]};
  }
  void Forward(const ForwardArgs& args) const override {
    args.math.Transpose(args.step.num_examples, args.shapes[0][0],
                        args.shapes[0][1], args.inputs[0], Write::kOverwrite,
                        args.output);
  }
  void Backward(const BackwardArgs& args) const override {
    const GradientTarget& dx = args.input_gradients[0];
    if (dx.data == nullptr) return;
    args.math.Transpose(args.step.num_examples, args.shapes[0][1],
                        args.shapes[0][0], args.output_gradient, dx.write,
                        dx.data);
  }
};

class SumRows final : public Layer {
 public:
  const char* kind() const override { return "sum_rows"; }
  std::optional<std::vector<LayerOption>> ExportedOptions() const override {
    return std::vector<LayerOption>{};
  }
  absl::StatusOr<Shape> OutputShape(
      absl::Span<const Shape> inputs) const override {
    if (inputs.size() != 1 || inputs[0].rank() != 2) {
      return ShapeMismatch(*this, inputs, "one of shape [rows, columns]");
    }
    return Shape{inputs[0][1]};
  }
  void Forward(const ForwardArgs& args) const override {
    args.math.SumRows(args.step.num_examples, args.shapes[0][0],
                      args.shapes[0][1], args.inputs[0], args.output);
  }
  void Backward(const BackwardArgs& args) const override {
    const GradientTarget& dx = args.input_gradients[0];
    if (dx.data == nullptr) return;
    args.math.SumRowsBackward(args.step.num_examples, args.shapes[0][0],
                              args.shapes[0][1], args.output_gradient, dx.write,
                              dx.data);
  }
};

// An example has h * m products of pairs. So the products are computed for a
// few examples at a time, which fit into a cache, and computed again for the
// gradients.
class CompressedInteraction final : public Layer {
 public:
  explicit CompressedInteraction(const CompressedInteractionOptions& options)
      : num_maps_(options.num_maps) {}
  const char* kind() const override { return "compressed_interaction"; }
  std::optional<std::vector<LayerOption>> ExportedOptions() const override {
    return std::vector<LayerOption>{};
  }
  absl::StatusOr<Shape> OutputShape(
      absl::Span<const Shape> inputs) const override {
    if (inputs.size() != 2 || inputs[0].rank() != 2 || inputs[1].rank() != 2 ||
        inputs[0][0] != inputs[1][0] || inputs[0].size() == 0 ||
        inputs[1].size() == 0) {
      return ShapeMismatch(*this, inputs,
                           "two of shapes [width, h] and [width, m]");
    }
    return Shape{inputs[0][0], num_maps_};
  }
  std::vector<LayerParameter> Parameters(
      absl::Span<const Shape> inputs) const override {
    const size_t pairs = inputs[0][1] * inputs[1][1];
    return {{"weight",
             {pairs, num_maps_},
             InitOf(WeightStart::kXavierUniform, pairs, num_maps_)}};
  }
  size_t ScratchFloats(const MathBackend& math, absl::Span<const Shape> inputs,
                       size_t max_examples) const override {
    return 2 * BlockOf(inputs) * PairsOfExample(inputs);
  }
  void Forward(const ForwardArgs& args) const override {
    ForBlocks(args, [&](const Block& b) {
      args.math.OuterProducts(b.rows, b.h, b.m, args.inputs[0] + b.x,
                              args.inputs[1] + b.x0, args.scratch);
      args.math.MatMul(b.rows, num_maps_, b.h * b.m,
                       {args.scratch, b.h * b.m, false},
                       {args.parameters[0], num_maps_, false},
                       Write::kOverwrite, args.output + b.y, num_maps_);
    });
  }
  void Backward(const BackwardArgs& args) const override {
    const GradientTarget& dx = args.input_gradients[0];
    const GradientTarget& dx0 = args.input_gradients[1];
    Write write = args.parameter_write;
    if (args.step.num_examples == 0 && write == Write::kOverwrite) {
      const size_t pairs = args.shapes[0][1] * args.shapes[1][1];
      args.math.Fill(pairs * num_maps_, 0, args.parameter_gradients[0]);
    }
    ForBlocks(args, [&](const Block& b) {
      const float* x = args.inputs[0] + b.x;
      const float* x0 = args.inputs[1] + b.x0;
      const float* dy = args.output_gradient + b.y;
      const size_t pairs = b.h * b.m;
      float* const dz = args.scratch + b.rows * pairs;
      args.math.OuterProducts(b.rows, b.h, b.m, x, x0, args.scratch);
      args.math.MatMul(pairs, num_maps_, b.rows, {args.scratch, pairs, true},
                       {dy, num_maps_, false}, write,
                       args.parameter_gradients[0], num_maps_);
      write = Write::kAdd;
      if (dx.data == nullptr && dx0.data == nullptr) return;
      args.math.MatMul(b.rows, pairs, num_maps_, {dy, num_maps_, false},
                       {args.parameters[0], num_maps_, true}, Write::kOverwrite,
                       dz, pairs);
      // The two gradients are computed one after the other: x and x0 may be the
      // same node.
      if (dx.data != nullptr) {
        args.math.OuterProductsBackward(b.rows, b.h, b.m, x, x0, dz,
                                        {dx.data + b.x, dx.write}, {});
      }
      if (dx0.data != nullptr) {
        args.math.OuterProductsBackward(b.rows, b.h, b.m, x, x0, dz, {},
                                        {dx0.data + b.x0, dx0.write});
      }
    });
  }

 private:
  // Some examples, with their offsets in x, x0 and y.
  struct Block {
    size_t rows = 0, h = 0, m = 0;
    size_t x = 0, x0 = 0, y = 0;
  };

  static size_t PairsOfExample(absl::Span<const Shape> inputs) {
    return inputs[0].size() * inputs[1][1];
  }
  static size_t BlockOf(absl::Span<const Shape> inputs) {
    constexpr size_t kBlockFloats = 1 << 15;
    return std::max<size_t>(1, kBlockFloats / PairsOfExample(inputs));
  }
  template <typename LayerArgs, typename Visit>
  void ForBlocks(const LayerArgs& args, Visit visit) const {
    const size_t n = args.step.num_examples, block = BlockOf(args.shapes);
    const size_t width = args.shapes[0][0];
    for (size_t e = 0; e < n; e += block) {
      Block b;
      b.rows = std::min(block, n - e) * width;
      b.h = args.shapes[0][1];
      b.m = args.shapes[1][1];
      b.x = e * width * b.h;
      b.x0 = e * width * b.m;
      b.y = e * width * num_maps_;
      visit(b);
    }
  }

  const size_t num_maps_;
};

class PairwiseDots final : public Layer {
 public:
  explicit PairwiseDots(const PairwiseDotsOptions& options)
      : width_(options.width) {}
  const char* kind() const override { return "pairwise_dots"; }
  std::optional<std::vector<LayerOption>> ExportedOptions() const override {
    return std::vector<LayerOption>{{"width", width_}};
  }
  absl::StatusOr<Shape> OutputShape(
      absl::Span<const Shape> inputs) const override {
    if (inputs.size() != 1 || width_ == 0 || inputs[0].size() % width_ != 0 ||
        inputs[0].size() < 2 * width_) {
      return ShapeMismatch(*this, inputs,
                           "one of two or more vectors of its width");
    }
    const size_t n = inputs[0].size() / width_;
    return Shape{n * (n - 1) / 2};
  }
  void Forward(const ForwardArgs& args) const override {
    args.math.PairwiseDots(ShapeOf(args), args.inputs[0], args.output);
  }
  void Backward(const BackwardArgs& args) const override {
    const GradientTarget& dv = args.input_gradients[0];
    if (dv.data == nullptr) return;
    args.math.PairwiseDotsBackward(ShapeOf(args), args.inputs[0],
                                   args.output_gradient, dv.write, dv.data);
  }

 private:
  template <typename LayerArgs>
  VectorsShape ShapeOf(const LayerArgs& args) const {
    return {args.step.num_examples, args.shapes[0].size() / width_, width_};
  }

  const size_t width_;
};

class SelfAttention final : public Layer {
 public:
  explicit SelfAttention(const SelfAttentionOptions& options)
      : heads_(options.heads) {}
  const char* kind() const override { return "self_attention"; }
  std::optional<std::vector<LayerOption>> ExportedOptions() const override {
    return std::vector<LayerOption>{{"heads", heads_}};
  }
  absl::StatusOr<Shape> OutputShape(
      absl::Span<const Shape> inputs) const override {
    if (inputs.size() != 1 || inputs[0].rank() != 2 || heads_ == 0 ||
        inputs[0].size() == 0 || inputs[0][1] % (3 * heads_) != 0) {
      return ShapeMismatch(*this, inputs,
                           "one of shape [rows, 3 * heads * width]");
    }
    return Shape{inputs[0][0], inputs[0][1] / 3};
  }
  size_t ScratchFloats(const MathBackend& math, absl::Span<const Shape> inputs,
                       size_t max_examples) const override {
    return max_examples * heads_ * inputs[0][0] * inputs[0][0];
  }
  void Forward(const ForwardArgs& args) const override {
    args.math.Attention(ShapeOf(args), args.inputs[0], args.scratch,
                        args.output);
  }
  void Backward(const BackwardArgs& args) const override {
    const GradientTarget& dx = args.input_gradients[0];
    if (dx.data == nullptr) return;
    args.math.AttentionBackward(ShapeOf(args), args.inputs[0], args.scratch,
                                args.output_gradient, dx.write, dx.data);
  }

 private:
  template <typename LayerArgs>
  AttentionShape ShapeOf(const LayerArgs& args) const {
    const Shape& input = args.shapes[0];
    return {args.step.num_examples, input[0], heads_, input[1] / 3 / heads_};
  }

  const size_t heads_;
};

class ScaledVectors final : public Layer {
 public:
  explicit ScaledVectors(const ScaledVectorsOptions& options)
      : options_(options) {}
  const char* kind() const override { return "scaled_vectors"; }
  std::optional<std::vector<LayerOption>> ExportedOptions() const override {
    return std::vector<LayerOption>{};
  }
  absl::StatusOr<Shape> OutputShape(
      absl::Span<const Shape> inputs) const override {
    if (inputs.size() != 1) return ShapeMismatch(*this, inputs, "one");
    return Shape{inputs[0].size(), options_.width};
  }
  std::vector<LayerParameter> Parameters(
      absl::Span<const Shape> inputs) const override {
    return {{"vector",
             {inputs[0].size(), options_.width},
             {ParameterInit::Kind::kUniform, options_.init_range}}};
  }
  void Forward(const ForwardArgs& args) const override {
    args.math.ScaleVectors(ShapeOf(args), args.inputs[0], args.parameters[0],
                           args.output);
  }
  void Backward(const BackwardArgs& args) const override {
    args.math.ScaleVectorsBackward(
        ShapeOf(args), args.inputs[0], args.parameters[0], args.output_gradient,
        Out(args.input_gradients[0]),
        {args.parameter_gradients[0], args.parameter_write});
  }

 private:
  template <typename LayerArgs>
  VectorsShape ShapeOf(const LayerArgs& args) const {
    return {args.step.num_examples, args.shapes[0].size(), options_.width};
  }

  const ScaledVectorsOptions options_;
};

}  // namespace

std::unique_ptr<Layer> NewReshape(Shape shape) {
  return std::make_unique<Reshape>(std::move(shape));
}
std::unique_ptr<Layer> NewFieldAwareFm() {
  return std::make_unique<FieldAwareFm>();
}
std::unique_ptr<Layer> NewCross() { return std::make_unique<Cross>(); }
std::unique_ptr<Layer> NewRowLinear(const RowLinearOptions& options) {
  return std::make_unique<RowLinear>(options);
}
std::unique_ptr<Layer> NewTranspose() { return std::make_unique<Transpose>(); }
std::unique_ptr<Layer> NewSumRows() { return std::make_unique<SumRows>(); }
std::unique_ptr<Layer> NewCompressedInteraction(
    const CompressedInteractionOptions& options) {
  return std::make_unique<CompressedInteraction>(options);
}
std::unique_ptr<Layer> NewPairwiseDots(const PairwiseDotsOptions& options) {
  return std::make_unique<PairwiseDots>(options);
}
std::unique_ptr<Layer> NewSelfAttention(const SelfAttentionOptions& options) {
  return std::make_unique<SelfAttention>(options);
}
std::unique_ptr<Layer> NewScaledVectors(const ScaledVectorsOptions& options) {
  return std::make_unique<ScaledVectors>(options);
}

}  // namespace oarlock::nn
