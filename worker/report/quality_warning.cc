#include "worker/report/quality_warning.h"

#include <algorithm>
#include <cmath>

#include "absl/strings/str_format.h"

namespace oarlock::worker {
namespace {

constexpr double kWorse = 1.1;
constexpr float kLarge = 1e3f;
constexpr uint64_t kFewSteps = 100;

std::string ReasonOf(const LargestNumbers& numbers, double learning_rate) {
  if (numbers.dense_feature > kLarge) {
    return absl::StrFormat(
        "dense feature %d has values up to %.3g: scale it, or give %s"
        "--dense_norm batch",
        numbers.dense_column, numbers.dense_feature,
        numbers.may_transform ? "--dense_transform log1p or " : "");
  }
  if (numbers.weight > kLarge) {
    return absl::StrFormat(
        "weights are up to %.3g: lower --learning_rate, which is %g",
        numbers.weight, learning_rate);
  }
  return absl::StrFormat(
      "lower --learning_rate, which is %g, or train on more examples",
      learning_rate);
}

}  // namespace

double ConstantLogloss(double rate) {
  if (!(rate > 0 && rate < 1)) return 0;
  return -rate * std::log(rate) - (1 - rate) * std::log1p(-rate);
}

std::string QualityWarning(const Quality& quality,
                           const LargestNumbers& numbers,
                           double learning_rate) {
  const double constant = ConstantLogloss(quality.label_mean);
  const bool is_short =
      quality.training_steps > 0 && quality.training_steps < kFewSteps;
  const double legal = is_short ? std::max(constant, std::log(2.0)) : constant;
  if (constant == 0 || !(quality.logloss > kWorse * legal)) return "";
  return absl::StrFormat(
      "%s: logloss %.4g is worse than %.4g, that of predicting the rate of "
      "clicks, %.4g, for every example; %s",
      quality.phase_name, quality.logloss, constant, quality.label_mean,
      ReasonOf(numbers, learning_rate));
}

}  // namespace oarlock::worker
