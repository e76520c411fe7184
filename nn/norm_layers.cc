#include "nn/norm_layers.h"

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/str_cat.h"
#include "absl/types/span.h"
#include "nn/shape_mismatch.h"

namespace oarlock::nn {
namespace {

NormSums SumsOf(const ForwardArgs& args) {
  return {args.statistics[0], args.statistics[1], args.statistics[2]};
}

// Mean and sqrt(variance + epsilon) of each column, by the rule of
// InteractionOperations::NormMoments.
std::vector<ExportedMoments> MeanAndDeviation(
    size_t cols, float epsilon, absl::Span<const float* const> statistics) {
  const float count = statistics[0][0];
  ExportedMoments mean = {"mean", std::vector<float>(cols, 0.0f)};
  ExportedMoments deviation = {"deviation", std::vector<float>(cols)};
  for (size_t c = 0; c < cols; ++c) {
    double variance = 1;
    if (count > 0) {
      mean.values[c] = statistics[1][c] / count;
      variance = std::max(statistics[2][c] / count, 0.0f);
    }
    deviation.values[c] = static_cast<float>(std::sqrt(variance + epsilon));
  }
  return {std::move(mean), std::move(deviation)};
}

class BatchNorm final : public Layer {
 public:
  explicit BatchNorm(const BatchNormOptions& options) : options_(options) {}
  const char* kind() const override { return "batch_norm"; }
  std::optional<std::vector<LayerOption>> ExportedOptions() const override {
    return std::vector<LayerOption>{
        {"activation",
         std::string(options_.activation == Activation::kRelu ? "relu"
                                                              : "none")}};
  }
  std::vector<ExportedMoments> MomentsOf(
      absl::Span<const Shape> inputs,
      absl::Span<const float* const> statistics) const override {
    return MeanAndDeviation(inputs[0].size(), options_.epsilon, statistics);
  }
  absl::StatusOr<Shape> OutputShape(
      absl::Span<const Shape> inputs) const override {
    if (inputs.size() != 1 || inputs[0].size() == 0) {
      return ShapeMismatch(*this, inputs, "one that is not empty");
    }
    if (!(options_.epsilon > 0) ||
        !(options_.decay >= 0 && options_.decay <= 1)) {
      return absl::InvalidArgumentError(absl::StrCat(
          "batch_norm got epsilon ", options_.epsilon, " and decay ",
          options_.decay, "; legal are more than 0, and 0 to 1: correct them"));
    }
    return inputs[0];
  }
  std::vector<LayerParameter> Parameters(
      absl::Span<const Shape> inputs) const override {
    return {{"scale", {inputs[0].size()}, {ParameterInit::Kind::kConstant, 1}},
            {"shift", {inputs[0].size()}, {}}};
  }
  std::vector<LayerStatistic> Statistics(
      absl::Span<const Shape> inputs) const override {
    const std::vector<size_t> shape = {inputs[0].size()};
    return {{"count", {1}, 0, options_.decay},
            {"sum", shape, 0, options_.decay},
            {"squares", shape, 0, options_.decay}};
  }
  // Holds the scratch of the backend, then mean and variance.
  size_t ScratchFloats(const MathBackend& math, absl::Span<const Shape> inputs,
                       size_t max_examples) const override {
    return 4 * inputs[0].size();
  }
  bool learns_in_training_only() const override { return true; }
  void Forward(const ForwardArgs& args) const override {
    BatchNormArgs norm = Args(args);
    norm.running_mean = args.scratch + 2 * norm.channels;
    norm.running_variance = args.scratch + 3 * norm.channels;
    if (args.step.training) {
      args.math.BatchNormTraining(norm, args.output);
      args.math.LearnNorm(norm.rows, norm.channels, options_.decay, norm.x,
                          SumsOf(args));
    } else {
      args.math.NormMoments(norm.channels, SumsOf(args), norm.running_mean,
                            norm.running_variance);
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
    args.math.BatchNormBackward(Args(args), args.output, gradients);
  }

 private:
  template <typename LayerArgs>
  BatchNormArgs Args(const LayerArgs& args) const {
    BatchNormArgs norm;
    norm.channels = args.shapes[0].size();
    norm.rows = args.step.num_examples;
    norm.epsilon = options_.epsilon;
    norm.momentum = 0;  // the backend's running values are not used
    norm.activation = options_.activation;
    norm.x = args.inputs[0];
    norm.scale = args.parameters[0];
    norm.shift = args.parameters[1];
    norm.scratch = args.scratch;
    return norm;
  }

  const BatchNormOptions options_;
};

class DataNorm final : public Layer {
 public:
  const char* kind() const override { return "data_norm"; }
  std::optional<std::vector<LayerOption>> ExportedOptions() const override {
    return std::vector<LayerOption>{};
  }
  std::vector<ExportedMoments> MomentsOf(
      absl::Span<const Shape> inputs,
      absl::Span<const float* const> statistics) const override {
    return MeanAndDeviation(inputs[0].size(), kEpsilon, statistics);
  }
  absl::StatusOr<Shape> OutputShape(
      absl::Span<const Shape> inputs) const override {
    if (inputs.size() != 1 || inputs[0].size() == 0) {
      return ShapeMismatch(*this, inputs, "one that is not empty");
    }
    return inputs[0];
  }
  std::vector<LayerStatistic> Statistics(
      absl::Span<const Shape> inputs) const override {
    const std::vector<size_t> shape = {inputs[0].size()};
    return {{"count", {1}, kStartExamples, kDecay},
            {"sum", shape, 0, kDecay},
            {"squares", shape, kStartExamples, kDecay}};
  }
  // Holds mean, then variance.
  size_t ScratchFloats(const MathBackend& math, absl::Span<const Shape> inputs,
                       size_t max_examples) const override {
    return 2 * inputs[0].size();
  }
  void Forward(const ForwardArgs& args) const override {
    const size_t rows = args.step.num_examples, cols = args.shapes[0].size();
    args.math.NormMoments(cols, SumsOf(args), args.scratch,
                          args.scratch + cols);
    args.math.Standardize(rows, cols, kEpsilon, args.scratch,
                          args.scratch + cols, args.inputs[0],
                          Write::kOverwrite, args.output);
    if (args.step.training) {
      args.math.LearnNorm(rows, cols, kDecay, args.inputs[0], SumsOf(args));
    }
  }
  void Backward(const BackwardArgs& args) const override {
    const GradientTarget& dx = args.input_gradients[0];
    if (dx.data == nullptr) return;
    const size_t cols = args.shapes[0].size();
    args.math.Standardize(args.step.num_examples, cols, kEpsilon,
                          /*mean=*/nullptr, args.scratch + cols,
                          args.output_gradient, dx.write, dx.data);
  }

 private:
  static constexpr float kStartExamples = 1e4f;
  static constexpr float kDecay = 0.999999f;
  static constexpr float kEpsilon = 1e-5f;
};

}  // namespace

std::unique_ptr<Layer> NewBatchNorm(const BatchNormOptions& options) {
  return std::make_unique<BatchNorm>(options);
}
std::unique_ptr<Layer> NewDataNorm() { return std::make_unique<DataNorm>(); }

}  // namespace oarlock::nn
