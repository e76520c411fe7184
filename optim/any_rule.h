// A rule that is known at run time only, with its options.

#ifndef OARLOCK_OPTIM_ANY_RULE_H_
#define OARLOCK_OPTIM_ANY_RULE_H_

#include <cstddef>
#include <cstdint>
#include <utility>
#include <variant>
#include <vector>

#include "optim/adagrad_rules.h"
#include "optim/adam_rules.h"
#include "optim/ftrl_rule.h"
#include "optim/lars_rule.h"
#include "optim/paddle_rules.h"
#include "optim/rule_code.h"
#include "optim/sgd_rules.h"
#include "optim/weight_options.h"

namespace oarlock::optim {

// The rule as it is in step number `step`, with the factor on its learning
// rate.
template <typename Rule>
Rule AtStep(const Rule& rule, uint64_t step, float rate_factor) {
  Rule stepped = rule;
  stepped.learning_rate *= rate_factor;
  if constexpr (requires { stepped.BeginStep(step); }) stepped.BeginStep(step);
  return stepped;
}

// Itself a rule: which one it is is asked in every call, some nanoseconds.
// Everything is inline so that apply_rule.cc can compile it for every
// instruction set.
class AnyRule {
 public:
  using Rule =
      std::variant<SgdRule, MomentumRule, AdagradRule, SharedAdagradRule,
                   AdamRule, LazyAdamRule, SharedAdamRule, AdamwRule, FtrlRule,
                   PaddleAdagradRule, PaddleStdAdagradRule, PaddleAdagradV2Rule,
                   PaddleAdamRule, PaddleSharedAdamRule, LarsRule>;

  AnyRule(const Rule& rule, const WeightOptions& options)
      : rule_(rule), options_(options) {}

  const Rule& rule() const { return rule_; }
  const WeightOptions& options() const { return options_; }

  // Whether it goes by means over the weights, which depend in their last bits
  // on the order of the sums.
  bool TakesMeans() const {
    return std::visit([]<typename R>(const R&) { return kTakesMeans<R>; },
                      rule_);
  }
  size_t StateSize(size_t n) const {
    return std::visit([n](const auto& rule) { return rule.StateSize(n); },
                      rule_);
  }
  void InitState(float* state, size_t n) const {
    std::visit([=](const auto& rule) { rule.InitState(state, n); }, rule_);
  }
  void Apply(float* w, float* state, const float* g, size_t n) const {
    if (options_.Regularise()) {
      ApplyRegularised(w, state, g, n);
    } else {
      ApplyRule(rule_, w, state, g, n);
    }
    if (options_.Bound()) options_.ApplyBounds(w, n);
  }

  friend AnyRule AtStep(const AnyRule& any, uint64_t step, float rate_factor) {
    return std::visit(
        [&](const auto& rule) {
          return AnyRule(AtStep(rule, step, rate_factor), any.options_);
        },
        any.rule_);
  }

 private:
  // Rows up to this dimension need no memory from the heap.
  static constexpr size_t kStackFloats = 1024;

  // A chain of comparisons, since std::visit calls through a table, which the
  // compiler cannot flatten.
  template <typename... Rules>
  static void ApplyRule(const std::variant<Rules...>& any, float* w,
                        float* state, const float* g, size_t n) {
    const auto apply_if = [&]<typename Rule>(const Rule* rule) {
      if (rule != nullptr) rule->Apply(w, state, g, n);
      return rule != nullptr;
    };
    static_cast<void>((apply_if(std::get_if<Rules>(&any)) || ...));
  }
  void ApplyRegularised(float* w, float* state, const float* g,
                        size_t n) const {
    float on_stack[kStackFloats];
    std::vector<float> on_heap(n > kStackFloats ? n : 0);
    float* const regularised = on_heap.empty() ? on_stack : on_heap.data();
    options_.AddRegularisation(w, g, regularised, n);
    ApplyRule(rule_, w, state, regularised, n);
  }

  Rule rule_;
  WeightOptions options_;
};

}  // namespace oarlock::optim

#endif  // OARLOCK_OPTIM_ANY_RULE_H_
