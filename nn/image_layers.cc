#include "nn/image_layers.h"

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/str_cat.h"
#include "absl/types/span.h"
#include "base/status_macros.h"
#include "nn/image_operations.h"
#include "nn/math_backend.h"
#include "nn/shape_mismatch.h"

namespace oarlock::nn {
namespace {

constexpr char kOneImage[] = "one of shape [height, width, channels]";

Extent ExtentOf(const Shape& image) { return {image[0], image[1]}; }

bool IsOneImage(absl::Span<const Shape> inputs) {
  return inputs.size() == 1 && inputs[0].rank() == 3 && inputs[0].size() > 0;
}

// The shape [height, width, channels] of the output of a window over an image.
absl::StatusOr<Shape> ShapeUnder(const Layer& layer, const Shape& image,
                                 const Window& window, size_t channels) {
  if (window.kernel.area() == 0 || window.stride.area() == 0) {
    return absl::InvalidArgumentError(absl::StrCat(
        layer.kind(), " got a kernel of ", window.kernel.height, " by ",
        window.kernel.width, " and a stride of ", window.stride.height, " by ",
        window.stride.width, "; legal are sizes of 1 or more: correct them"));
  }
  const Extent out = NumPositions(ExtentOf(image), window);
  if (out.area() == 0) {
    return absl::InvalidArgumentError(absl::StrCat(
        layer.kind(), " got a kernel of ", window.kernel.height, " by ",
        window.kernel.width, " for an image ", image.ToString(),
        "; legal is one that fits into the padded image: use a smaller one"));
  }
  return Shape{out.height, out.width, channels};
}

class ImageInput final : public Layer {
 public:
  explicit ImageInput(const ImageInputOptions& options) : options_(options) {}
  const char* kind() const override { return "image_input"; }
  absl::StatusOr<Shape> OutputShape(
      absl::Span<const Shape> inputs) const override {
    const Shape& shape = options_.shape;
    if (!inputs.empty()) return ShapeMismatch(*this, inputs, "none");
    if (shape.rank() != 3 || shape.size() == 0 || shape[2] > kMaxByteChannels) {
      return absl::InvalidArgumentError(
          absl::StrCat("image_input got shape ", shape.ToString(),
                       "; legal is [height, width, channels] of at most ",
                       kMaxByteChannels, " channels: correct it"));
    }
    OARLOCK_RETURN_IF_ERROR(CheckValues("mean", options_.mean));
    OARLOCK_RETURN_IF_ERROR(CheckValues("deviation", options_.deviation));
    for (float deviation : options_.deviation) {
      if (deviation != 0) continue;
      return absl::InvalidArgumentError(
          "image_input got a deviation of 0; legal is any other: correct it");
    }
    return shape;
  }
  size_t image_bytes() const override { return options_.shape.size(); }
  void Forward(const ForwardArgs& args) const override {
    const size_t channels = options_.shape[2];
    ByteScale scale;
    for (size_t c = 0; c < channels; ++c) {
      const float deviation = Of(options_.deviation, c, 1);
      scale.factor[c] = 1 / (255 * deviation);
      scale.addend[c] = -Of(options_.mean, c, 0) / deviation;
    }
    args.math.ScaleBytes(
        args.step.num_examples * options_.shape.size() / channels, channels,
        args.step.images, scale, args.output);
  }
  void Backward(const BackwardArgs& args) const override {}

 private:
  absl::Status CheckValues(const char* what,
                           const std::vector<float>& values) const {
    if (values.size() <= 1 || values.size() == options_.shape[2]) {
      return absl::OkStatus();
    }
    return absl::InvalidArgumentError(absl::StrCat(
        "image_input got ", values.size(), " values of ", what, " for ",
        options_.shape[2], " channels; legal are one for each, one or none"));
  }
  static float Of(const std::vector<float>& values, size_t channel,
                  float otherwise) {
    if (values.empty()) return otherwise;
    return values.size() == 1 ? values[0] : values[channel];
  }

  const ImageInputOptions options_;
};

class Conv2d final : public Layer {
 public:
  explicit Conv2d(const Conv2dOptions& options) : options_(options) {}
  const char* kind() const override { return "conv2d"; }
  absl::StatusOr<Shape> OutputShape(
      absl::Span<const Shape> inputs) const override {
    if (!IsOneImage(inputs)) return ShapeMismatch(*this, inputs, kOneImage);
    if (options_.out_channels == 0) {
      return absl::InvalidArgumentError(
          "conv2d got 0 out_channels; legal is 1 or more: correct it");
    }
    if (options_.activation != Activation::kNone && !options_.bias) {
      return absl::InvalidArgumentError(
          "conv2d got an activation and no bias; legal is an activation with "
          "a bias: add the activation as a layer of its own");
    }
    return ShapeUnder(*this, inputs[0], options_.window, options_.out_channels);
  }
  std::vector<LayerParameter> Parameters(
      absl::Span<const Shape> inputs) const override {
    const Extent kernel = options_.window.kernel;
    const size_t in = inputs[0][2];
    std::vector<LayerParameter> parameters = {
        {"weight",
         {kernel.height, kernel.width, in, options_.out_channels},
         InitOf(options_.weight_start, kernel.area() * in,
                kernel.area() * options_.out_channels)}};
    if (options_.bias) {
      parameters.push_back({"bias", {options_.out_channels}, {}});
    }
    return parameters;
  }
  size_t ScratchFloats(const MathBackend& math, absl::Span<const Shape> inputs,
                       size_t max_examples) const override {
    return math.ConvolutionScratch(max_examples, ShapeOf(inputs[0]));
  }
  void Forward(const ForwardArgs& args) const override {
    args.math.Convolution(Args(args), args.output);
  }
  void Backward(const BackwardArgs& args) const override {
    ConvolutionGradients gradients;
    gradients.dy = args.output_gradient;
    gradients.parameter_write = args.parameter_write;
    gradients.dweight = args.parameter_gradients[0];
    if (options_.bias) gradients.dbias = args.parameter_gradients[1];
    gradients.dx = args.input_gradients[0].data;
    gradients.dx_write = args.input_gradients[0].write;
    args.math.ConvolutionBackward(Args(args), args.output, gradients);
  }

 private:
  ConvolutionShape ShapeOf(const Shape& image) const {
    return {ExtentOf(image), image[2], options_.out_channels, options_.window};
  }
  // Converts ForwardArgs or BackwardArgs.
  template <typename LayerArgs>
  ConvolutionArgs Args(const LayerArgs& args) const {
    ConvolutionArgs convolution;
    convolution.images = args.step.num_examples;
    convolution.shape = ShapeOf(args.shapes[0]);
    convolution.activation = options_.activation;
    convolution.x = args.inputs[0];
    convolution.weight = args.parameters[0];
    convolution.bias = options_.bias ? args.parameters[1] : nullptr;
    convolution.scratch = args.scratch;
    return convolution;
  }

  const Conv2dOptions options_;
};

absl::StatusOr<Shape> PooledShape(const Layer& layer,
                                  absl::Span<const Shape> inputs,
                                  const Window& window) {
  if (!IsOneImage(inputs)) return ShapeMismatch(layer, inputs, kOneImage);
  if (window.padding.height >= window.kernel.height ||
      window.padding.width >= window.kernel.width) {
    return absl::InvalidArgumentError(absl::StrCat(
        layer.kind(), " got a padding of ", window.padding.height, " by ",
        window.padding.width, " for a kernel of ", window.kernel.height, " by ",
        window.kernel.width, "; legal is a smaller one than the kernel"));
  }
  return ShapeUnder(layer, inputs[0], window, inputs[0][2]);
}

PoolingShape PoolingOf(size_t images, const Shape& image,
                       const Window& window) {
  return {images, ExtentOf(image), image[2], window};
}

class MaxPool2d final : public Layer {
 public:
  explicit MaxPool2d(const MaxPool2dOptions& options) : options_(options) {}
  const char* kind() const override { return "max_pool2d"; }
  absl::StatusOr<Shape> OutputShape(
      absl::Span<const Shape> inputs) const override {
    const size_t area = options_.window.kernel.area();
    if (area > kMaxPoolArea) {
      return absl::InvalidArgumentError(absl::StrCat(
          "max_pool2d got a kernel of ", area, " elements; legal are at most ",
          kMaxPoolArea, ": pool twice"));
    }
    return PooledShape(*this, inputs, options_.window);
  }
  // Holds a byte for each output.
  size_t ScratchFloats(const MathBackend& math, absl::Span<const Shape> inputs,
                       size_t max_examples) const override {
    const size_t bytes =
        PoolingOf(max_examples, inputs[0], options_.window).output_size();
    return (bytes + sizeof(float) - 1) / sizeof(float);
  }
  void Forward(const ForwardArgs& args) const override {
    args.math.MaxPool(
        PoolingOf(args.step.num_examples, args.shapes[0], options_.window),
        options_.activation, args.inputs[0], args.output,
        reinterpret_cast<uint8_t*>(args.scratch));
  }
  void Backward(const BackwardArgs& args) const override {
    const GradientTarget& dx = args.input_gradients[0];
    if (dx.data == nullptr) return;
    args.math.MaxPoolBackward(
        PoolingOf(args.step.num_examples, args.shapes[0], options_.window),
        args.output_gradient, reinterpret_cast<const uint8_t*>(args.scratch),
        dx.write, dx.data);
  }

 private:
  const MaxPool2dOptions options_;
};

class AveragePool2d final : public Layer {
 public:
  // Without a window, it is the mean of the whole image.
  explicit AveragePool2d(std::optional<Window> window) : window_(window) {}
  const char* kind() const override {
    return window_ ? "average_pool2d" : "global_average_pool";
  }
  absl::StatusOr<Shape> OutputShape(
      absl::Span<const Shape> inputs) const override {
    if (window_) return PooledShape(*this, inputs, *window_);
    if (!IsOneImage(inputs)) return ShapeMismatch(*this, inputs, kOneImage);
    return Shape{inputs[0][2]};
  }
  void Forward(const ForwardArgs& args) const override {
    args.math.AveragePool(Pooling(args), args.inputs[0], args.output);
  }
  void Backward(const BackwardArgs& args) const override {
    const GradientTarget& dx = args.input_gradients[0];
    if (dx.data == nullptr) return;
    args.math.AveragePoolBackward(Pooling(args), args.output_gradient, dx.write,
                                  dx.data);
  }

 private:
  template <typename LayerArgs>
  PoolingShape Pooling(const LayerArgs& args) const {
    const Shape& image = args.shapes[0];
    Window window;
    window.kernel = ExtentOf(image);
    return PoolingOf(args.step.num_examples, image, window_.value_or(window));
  }

  const std::optional<Window> window_;
};

class BatchNorm2d final : public Layer {
 public:
  explicit BatchNorm2d(const BatchNorm2dOptions& options) : options_(options) {}
  const char* kind() const override { return "batch_norm2d"; }
  absl::StatusOr<Shape> OutputShape(
      absl::Span<const Shape> inputs) const override {
    const bool one_or_two = inputs.size() == 1 || inputs.size() == 2;
    if (!one_or_two || inputs[0].rank() == 0 || inputs[0].size() == 0 ||
        inputs[inputs.size() - 1] != inputs[0]) {
      return ShapeMismatch(*this, inputs,
                           "one, or two of the same shape, channels last");
    }
    if (!(options_.epsilon > 0) ||
        !(options_.momentum >= 0 && options_.momentum <= 1)) {
      return absl::InvalidArgumentError(
          absl::StrCat("batch_norm2d got epsilon ", options_.epsilon,
                       " and momentum ", options_.momentum,
                       "; legal are more than 0, and 0 to 1: correct them"));
    }
    return inputs[0];
  }
  std::vector<LayerParameter> Parameters(
      absl::Span<const Shape> inputs) const override {
    const std::vector<size_t> shape = {inputs[0].dims().back()};
    return {{"scale",
             shape,
             {ParameterInit::Kind::kConstant, options_.scale_start}},
            {"shift", shape, {}}};
  }
  std::vector<LayerStatistic> Statistics(
      absl::Span<const Shape> inputs) const override {
    const std::vector<size_t> shape = {inputs[0].dims().back()};
    return {{"mean", shape, 0}, {"variance", shape, 1}};
  }
  size_t ScratchFloats(const MathBackend& math, absl::Span<const Shape> inputs,
                       size_t max_examples) const override {
    return 2 * inputs[0].dims().back();
  }
  bool learns_in_training_only() const override { return true; }
  void Forward(const ForwardArgs& args) const override {
    BatchNormArgs norm = Args(args);
    norm.running_mean = args.statistics[0];
    norm.running_variance = args.statistics[1];
    if (args.step.training) {
      args.math.BatchNormTraining(norm, args.output);
    } else {
      args.math.BatchNormInference(norm, args.output);
    }
  }
  void Backward(const BackwardArgs& args) const override {
    BatchNormGradients gradients;
    gradients.dy = args.output_gradient;
    gradients.parameter_write = args.parameter_write;
    gradients.dscale = args.parameter_gradients[0];
    gradients.dshift = args.parameter_gradients[1];
    gradients.dx = args.input_gradients[0].data;
    gradients.dx_write = args.input_gradients[0].write;
    if (args.inputs.size() == 2) {
      gradients.dresidual = args.input_gradients[1].data;
      gradients.dresidual_write = args.input_gradients[1].write;
    }
    args.math.BatchNormBackward(Args(args), args.output, gradients);
  }

 private:
  template <typename LayerArgs>
  BatchNormArgs Args(const LayerArgs& args) const {
    BatchNormArgs norm;
    norm.channels = args.shapes[0].dims().back();
    norm.rows = args.step.num_examples * args.shapes[0].size() / norm.channels;
    norm.epsilon = options_.epsilon;
    norm.momentum = options_.momentum;
    norm.activation = options_.activation;
    norm.x = args.inputs[0];
    norm.scale = args.parameters[0];
    norm.shift = args.parameters[1];
    norm.residual = args.inputs.size() == 2 ? args.inputs[1] : nullptr;
    norm.scratch = args.scratch;
    return norm;
  }

  const BatchNorm2dOptions options_;
};

}  // namespace

std::unique_ptr<Layer> NewImageInput(const ImageInputOptions& options) {
  return std::make_unique<ImageInput>(options);
}
std::unique_ptr<Layer> NewConv2d(const Conv2dOptions& options) {
  return std::make_unique<Conv2d>(options);
}
std::unique_ptr<Layer> NewMaxPool2d(const MaxPool2dOptions& options) {
  return std::make_unique<MaxPool2d>(options);
}
std::unique_ptr<Layer> NewAveragePool2d(const Window& window) {
  return std::make_unique<AveragePool2d>(window);
}
std::unique_ptr<Layer> NewGlobalAveragePool() {
  return std::make_unique<AveragePool2d>(std::nullopt);
}
std::unique_ptr<Layer> NewBatchNorm2d(const BatchNorm2dOptions& options) {
  return std::make_unique<BatchNorm2d>(options);
}

}  // namespace oarlock::nn
