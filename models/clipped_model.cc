#include "models/clipped_model.h"

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <utility>
#include <vector>

#include "absl/types/span.h"

namespace oarlock::models {
namespace {

class ClippingExecutor final : public ModelExecutor {
 public:
  ClippingExecutor(const ModelSpec& spec, const GradientClip& clip,
                   std::unique_ptr<ModelExecutor> executor)
      : spec_(spec), clip_(clip), executor_(std::move(executor)) {}

  void Predict(const nn::StepInput& input, nn::StepOutput* output) override {
    executor_->Predict(input, output);
  }

  void Step(const nn::StepInput& input, nn::StepOutput* output) override {
    if (!input.accumulate_parameter_gradients) {
      executor_->Step(input, output);
      Clip(input, *output);
      return;
    }
    // The output already holds the gradients of other steps. This step's
    // gradients are computed in own_, clipped there, and then added.
    step_ = input;
    step_.accumulate_parameter_gradients = false;
    own_.resize(spec_.num_parameters);
    float* const sum = std::exchange(output->parameter_gradients, own_.data());
    executor_->Step(step_, output);
    Clip(input, *output);
    output->parameter_gradients = sum;
    for (size_t i = 0; i < own_.size(); ++i) sum[i] += own_[i];
  }

 private:
  void Clip(const nn::StepInput& input, const nn::StepOutput& output) {
    parts_.clear();
    parts_.push_back(
        absl::MakeSpan(output.parameter_gradients, spec_.num_parameters));
    for (size_t i = 0; i < spec_.sparse_inputs.size(); ++i) {
      const SparseInputSpec& of = spec_.sparse_inputs[i];
      if (of.is_statistics()) continue;
      parts_.push_back(absl::MakeSpan(output.row_gradients[i],
                                      input.sparse[i].num_rows * of.row_dim));
    }
    if (clip_.value > 0) ClipValues();
    if (clip_.norm > 0) ClipNorm();
  }

  void ClipValues() {
    for (absl::Span<float> part : parts_) {
      for (float& x : part) {
        if (x > clip_.value) x = clip_.value;
        if (x < -clip_.value) x = -clip_.value;
      }
    }
  }

  void ClipNorm() {
    double squares = 0;
    for (absl::Span<const float> part : parts_) squares += SumOfSquares(part);
    const double norm = std::sqrt(squares);
    if (!(norm > clip_.norm) || !std::isfinite(norm)) return;
    const float factor = static_cast<float>(clip_.norm / norm);
    for (absl::Span<float> part : parts_) {
      for (float& x : part) x *= factor;
    }
  }

  // Keeps several partial sums, which a compiler stores in one vector register.
  static double SumOfSquares(absl::Span<const float> x) {
    constexpr size_t kSums = 8;
    double sums[kSums] = {};
    size_t i = 0;
    for (; i + kSums <= x.size(); i += kSums) {
      for (size_t s = 0; s < kSums; ++s) {
        sums[s] += static_cast<double>(x[i + s]) * x[i + s];
      }
    }
    double sum = 0;
    for (; i < x.size(); ++i) sum += static_cast<double>(x[i]) * x[i];
    for (const double s : sums) sum += s;
    return sum;
  }

  const ModelSpec& spec_;
  const GradientClip clip_;
  const std::unique_ptr<ModelExecutor> executor_;
  // Reused from step to step.
  nn::StepInput step_;
  std::vector<float> own_;
  std::vector<absl::Span<float>> parts_;
};

class ClippedModel final : public Model {
 public:
  ClippedModel(std::unique_ptr<Model> model, const GradientClip& clip)
      : model_(std::move(model)), clip_(clip) {}
  const ModelSpec& spec() const override { return model_->spec(); }
  const nn::Network* network() const override { return model_->network(); }
  std::unique_ptr<ModelExecutor> NewExecutor(
      size_t max_examples) const override {
    return std::make_unique<ClippingExecutor>(
        spec(), clip_, model_->NewExecutor(max_examples));
  }

 private:
  const std::unique_ptr<Model> model_;
  const GradientClip clip_;
};

}  // namespace

std::unique_ptr<Model> WithClipping(std::unique_ptr<Model> model,
                                    const GradientClip& clip) {
  if (clip.value <= 0 && clip.norm <= 0) return model;
  return std::make_unique<ClippedModel>(std::move(model), clip);
}

}  // namespace oarlock::models
