#include "optim/rules.h"

#include <cmath>
#include <limits>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"
#include "base/status_macros.h"

namespace oarlock::optim {
namespace {

using Config = v1::OptimizerConfig;

constexpr float kInfinity = std::numeric_limits<float>::infinity();
// PaddlePaddle's Python layer sets them where the user does not.
constexpr float kPaddleBound = 10;

absl::Status Invalid(absl::string_view what) {
  return absl::InvalidArgumentError(
      absl::StrCat("optimizer.", what, "; correct the table's optimizer"));
}

// `value` must lie in [low, high).
absl::Status CheckRange(absl::string_view field, float value, float low,
                        float high) {
  if (value >= low && value < high) return absl::OkStatus();
  return Invalid(absl::StrCat(field, " is ", value, "; legal is ", low,
                              high == kInfinity
                                  ? " or more, finite"
                                  : absl::StrCat(" to below ", high)));
}

// `value` is divided by: it must be more than 0.
absl::Status CheckPositive(absl::string_view field, float value) {
  if (value > 0 && value < kInfinity) return absl::OkStatus();
  return Invalid(
      absl::StrCat(field, " is ", value, "; legal is more than 0, finite"));
}

// Of v1::Adam and v1::Adamw; `name` is the rule's.
template <typename Message>
absl::StatusOr<AdamMoments> MomentsOf(absl::string_view name,
                                      const Message& adam) {
  AdamMoments moments;
  if (adam.has_beta1()) moments.beta1 = adam.beta1();
  if (adam.has_beta2()) moments.beta2 = adam.beta2();
  if (adam.has_epsilon()) moments.epsilon = adam.epsilon();
  OARLOCK_RETURN_IF_ERROR(
      CheckRange(absl::StrCat(name, ".beta1"), moments.beta1, 0, 1));
  OARLOCK_RETURN_IF_ERROR(
      CheckRange(absl::StrCat(name, ".beta2"), moments.beta2, 0, 1));
  OARLOCK_RETURN_IF_ERROR(
      CheckPositive(absl::StrCat(name, ".epsilon"), moments.epsilon));
  return moments;
}

template <typename Rule>
absl::StatusOr<AnyRule::Rule> AdamOf(absl::string_view name, float rate,
                                     const v1::Adam& adam) {
  OARLOCK_ASSIGN_OR_RETURN(const AdamMoments moments, MomentsOf(name, adam));
  return Rule{.learning_rate = rate, .moments = moments};
}

absl::StatusOr<AnyRule::Rule> AdamwOf(float rate, const v1::Adamw& adamw) {
  AdamwRule rule{.learning_rate = rate};
  OARLOCK_ASSIGN_OR_RETURN(rule.moments, MomentsOf("adamw", adamw));
  if (adamw.has_weight_decay()) rule.weight_decay = adamw.weight_decay();
  OARLOCK_RETURN_IF_ERROR(
      CheckRange("adamw.weight_decay", rule.weight_decay, 0, kInfinity));
  return rule;
}

// AdagradRule or SharedAdagradRule.
template <typename Rule>
absl::StatusOr<AnyRule::Rule> AdagradOf(absl::string_view name, float rate,
                                        const v1::Adagrad& adagrad) {
  Rule rule{.learning_rate = rate,
            .initial_accumulator = adagrad.initial_accumulator()};
  if (adagrad.has_epsilon()) rule.epsilon = adagrad.epsilon();
  OARLOCK_RETURN_IF_ERROR(CheckRange(absl::StrCat(name, ".initial_accumulator"),
                                     rule.initial_accumulator, 0, kInfinity));
  OARLOCK_RETURN_IF_ERROR(
      CheckPositive(absl::StrCat(name, ".epsilon"), rule.epsilon));
  return rule;
}

// PaddleAdagradRule or PaddleStdAdagradRule.
template <typename Rule>
absl::StatusOr<AnyRule::Rule> PaddleAdagradOf(
    absl::string_view name, float rate, const v1::PaddleAdagrad& adagrad) {
  Rule rule{.learning_rate = rate};
  if (adagrad.has_initial_g2sum()) rule.initial_g2sum = adagrad.initial_g2sum();
  OARLOCK_RETURN_IF_ERROR(
      CheckPositive(absl::StrCat(name, ".initial_g2sum"), rule.initial_g2sum));
  return rule;
}

absl::StatusOr<AnyRule::Rule> MomentumOf(float rate,
                                         const v1::Momentum& momentum) {
  MomentumRule rule{.learning_rate = rate, .nesterov = momentum.nesterov()};
  if (momentum.has_momentum()) rule.momentum = momentum.momentum();
  OARLOCK_RETURN_IF_ERROR(CheckRange("momentum.momentum", rule.momentum, 0, 1));
  return rule;
}

absl::StatusOr<AnyRule::Rule> LarsOf(float rate, const v1::Lars& lars) {
  LarsRule rule{.learning_rate = rate, .epsilon = lars.epsilon()};
  if (lars.has_momentum()) rule.momentum = lars.momentum();
  if (lars.has_coefficient()) rule.coefficient = lars.coefficient();
  if (lars.has_weight_decay()) rule.weight_decay = lars.weight_decay();
  OARLOCK_RETURN_IF_ERROR(CheckRange("lars.momentum", rule.momentum, 0, 1));
  OARLOCK_RETURN_IF_ERROR(
      CheckRange("lars.coefficient", rule.coefficient, 0, kInfinity));
  OARLOCK_RETURN_IF_ERROR(
      CheckRange("lars.weight_decay", rule.weight_decay, 0, kInfinity));
  OARLOCK_RETURN_IF_ERROR(
      CheckRange("lars.epsilon", rule.epsilon, 0, kInfinity));
  return rule;
}

absl::StatusOr<AnyRule::Rule> FtrlOf(const Config& config) {
  FtrlRule rule{.learning_rate = config.learning_rate(),
                .l1 = config.l1(),
                .l2 = config.l2()};
  if (config.ftrl().has_beta()) rule.beta = config.ftrl().beta();
  OARLOCK_RETURN_IF_ERROR(CheckRange("learning_rate (ftrl's alpha)",
                                     rule.learning_rate, 0, kInfinity));
  OARLOCK_RETURN_IF_ERROR(CheckPositive("ftrl.beta", rule.beta));
  return rule;
}

absl::StatusOr<AnyRule::Rule> RuleOf(const Config& config) {
  const float rate = config.learning_rate();
  switch (config.rule_case()) {
    case Config::kSgd:
    case Config::kPaddleNaive:
      return SgdRule{.learning_rate = rate};
    case Config::kMomentum:
      return MomentumOf(rate, config.momentum());
    case Config::kAdagrad:
      return AdagradOf<AdagradRule>("adagrad", rate, config.adagrad());
    case Config::kSharedAdagrad:
      return AdagradOf<SharedAdagradRule>("shared_adagrad", rate,
                                          config.shared_adagrad());
    case Config::kAdam:
      return AdamOf<AdamRule>("adam", rate, config.adam());
    case Config::kLazyAdam:
      return AdamOf<LazyAdamRule>("lazy_adam", rate, config.lazy_adam());
    case Config::kSharedAdam:
      return AdamOf<SharedAdamRule>("shared_adam", rate, config.shared_adam());
    case Config::kAdamw:
      return AdamwOf(rate, config.adamw());
    case Config::kFtrl:
      return FtrlOf(config);
    case Config::kPaddleAdagrad:
      return PaddleAdagradOf<PaddleAdagradRule>("paddle_adagrad", rate,
                                                config.paddle_adagrad());
    case Config::kPaddleStdAdagrad:
      return PaddleAdagradOf<PaddleStdAdagradRule>("paddle_std_adagrad", rate,
                                                   config.paddle_std_adagrad());
    case Config::kPaddleAdagradV2:
      return PaddleAdagradV2Rule{.learning_rate = rate};
    case Config::kPaddleAdam:
      return AdamOf<PaddleAdamRule>("paddle_adam", rate, config.paddle_adam());
    case Config::kPaddleSharedAdam:
      return AdamOf<PaddleSharedAdamRule>("paddle_shared_adam", rate,
                                          config.paddle_shared_adam());
    case Config::kLars:
      return LarsOf(rate, config.lars());
    case Config::RULE_NOT_SET:
      break;
  }
  return absl::InvalidArgumentError(
      "optimizer has no rule; legal are sgd, adagrad, adam, ftrl and the "
      "others of OptimizerConfig; set one in the table's optimizer");
}

bool HasPaddleBounds(Config::RuleCase rule) {
  return rule == Config::kPaddleNaive || rule == Config::kPaddleAdagrad ||
         rule == Config::kPaddleStdAdagrad || rule == Config::kPaddleAdagradV2;
}

bool IsPaddles(Config::RuleCase rule) {
  return HasPaddleBounds(rule) || rule == Config::kPaddleAdam ||
         rule == Config::kPaddleSharedAdam;
}

absl::Status CheckRegularisation(const Config& config) {
  OARLOCK_RETURN_IF_ERROR(CheckRange("l1", config.l1(), 0, kInfinity));
  OARLOCK_RETURN_IF_ERROR(CheckRange("l2", config.l2(), 0, kInfinity));
  const bool regularised = config.l1() != 0 || config.l2() != 0;
  if (regularised && IsPaddles(config.rule_case())) {
    return Invalid(absl::StrCat(
        "l1 is ", config.l1(), " and l2 is ", config.l2(),
        " with a paddle_* rule; legal is 0, as PaddlePaddle has none there: "
        "choose the rule without paddle_"));
  }
  if (config.l2() != 0 && config.has_adamw()) {
    return Invalid(absl::StrCat(
        "l2 is ", config.l2(),
        " with adamw; legal is 0, as adamw decays "
        "weights by itself: set adamw.weight_decay, or choose adam"));
  }
  if (config.l2() != 0 && config.has_lars()) {
    return Invalid(
        absl::StrCat("l2 is ", config.l2(),
                     " with lars; legal is 0, as lars decays weights "
                     "by itself: set lars.weight_decay, or choose momentum"));
  }
  return absl::OkStatus();
}

absl::StatusOr<WeightOptions> OptionsOf(const Config& config) {
  OARLOCK_RETURN_IF_ERROR(CheckRegularisation(config));
  WeightOptions options;
  // Ftrl has them in its formula.
  if (!config.has_ftrl()) {
    options.l1 = config.l1();
    options.l2 = config.l2();
  }
  if (!config.has_weight_bounds()) {
    if (HasPaddleBounds(config.rule_case())) {
      options.lower = -kPaddleBound;
      options.upper = kPaddleBound;
    }
    return options;
  }
  options.lower = config.weight_bounds().lower();
  options.upper = config.weight_bounds().upper();
  if (!(options.lower < options.upper)) {
    return Invalid(absl::StrCat("weight_bounds are ", options.lower, " and ",
                                options.upper, "; legal is lower < upper"));
  }
  return options;
}

}  // namespace

absl::StatusOr<UpdateRule> UpdateRule::Create(const Config& config) {
  if (!std::isfinite(config.learning_rate())) {
    return Invalid(absl::StrCat("learning_rate is ", config.learning_rate(),
                                "; legal is any finite number"));
  }
  OARLOCK_ASSIGN_OR_RETURN(const AnyRule::Rule rule, RuleOf(config));
  OARLOCK_ASSIGN_OR_RETURN(const WeightOptions options, OptionsOf(config));
  OARLOCK_ASSIGN_OR_RETURN(RateSchedule schedule, RateSchedule::Create(config));
  return UpdateRule(AnyRule(rule, options), std::move(schedule));
}

}  // namespace oarlock::optim
