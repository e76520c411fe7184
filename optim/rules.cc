#include "optim/rules.h"

#include <cmath>
#include <limits>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"
#include "base/status_macros.h"

namespace oarlock {
namespace {

constexpr float kInfinity = std::numeric_limits<float>::infinity();

// `value` must lie in [low, high).
absl::Status CheckRange(absl::string_view field, float value, float low,
                        float high) {
  if (value >= low && value < high) return absl::OkStatus();
  return absl::InvalidArgumentError(absl::StrCat(
      "optimizer.", field, " is ", value, "; legal is ", low,
      high == kInfinity ? " or more, finite" : absl::StrCat(" to below ", high),
      "; correct the table's optimizer"));
}

float OrDefault(float value, float otherwise) {
  return value == 0 ? otherwise : value;
}

}  // namespace

absl::StatusOr<UpdateRule> UpdateRule::Create(
    const v1::OptimizerConfig& config) {
  const float learning_rate = config.learning_rate();
  if (!std::isfinite(learning_rate)) {
    return absl::InvalidArgumentError(
        absl::StrCat("optimizer.learning_rate is ", learning_rate,
                     "; legal is any finite number; correct the table's "
                     "optimizer"));
  }
  const uint32_t warmup = config.warmup_steps();
  switch (config.rule_case()) {
    case v1::OptimizerConfig::kSgd:
      return UpdateRule(SgdRule{.learning_rate = learning_rate}, warmup);
    case v1::OptimizerConfig::kAdagrad: {
      const v1::Adagrad& adagrad = config.adagrad();
      OARLOCK_RETURN_IF_ERROR(CheckRange("adagrad.initial_accumulator",
                                         adagrad.initial_accumulator(), 0,
                                         kInfinity));
      OARLOCK_RETURN_IF_ERROR(
          CheckRange("adagrad.epsilon", adagrad.epsilon(), 0, kInfinity));
      return UpdateRule(AdagradRule{
          .learning_rate = learning_rate,
          .initial_accumulator = adagrad.initial_accumulator(),
          .epsilon =
              OrDefault(adagrad.epsilon(), AdagradRule::kDefaultEpsilon)},
                        warmup);
    }
    case v1::OptimizerConfig::kAdam: {
      const v1::Adam& adam = config.adam();
      OARLOCK_RETURN_IF_ERROR(CheckRange("adam.beta1", adam.beta1(), 0, 1));
      OARLOCK_RETURN_IF_ERROR(CheckRange("adam.beta2", adam.beta2(), 0, 1));
      OARLOCK_RETURN_IF_ERROR(
          CheckRange("adam.epsilon", adam.epsilon(), 0, kInfinity));
      return UpdateRule(AdamRule{
          .learning_rate = learning_rate,
          .beta1 = OrDefault(adam.beta1(), AdamRule::kDefaultBeta1),
          .beta2 = OrDefault(adam.beta2(), AdamRule::kDefaultBeta2),
          .epsilon = OrDefault(adam.epsilon(), AdamRule::kDefaultEpsilon)},
                        warmup);
    }
    case v1::OptimizerConfig::RULE_NOT_SET:
      break;
  }
  return absl::InvalidArgumentError(
      "optimizer has no rule; legal are sgd, adagrad and adam; set one in the "
      "table's optimizer");
}

}  // namespace oarlock
