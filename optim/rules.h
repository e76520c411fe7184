// Update rules: how a gradient changes weights. The same rule serves a sparse
// row (n = dim) and a dense block (n = floats in the block).
// docs/update_rules.md has the table of them.
//
// Every rule is a small struct (*_rules.h, formula and source above each) with
//
//   float learning_rate
//   size_t StateSize(n)                 floats of optimizer state for n weights
//   void InitState(state, n)            the state of weights without a gradient
//   void Apply(w, state, g, n)          one update of w[n] and state by g[n]
//   void BeginStep(step)                optional: what depends on the step
//
// so that a loop over rows is compiled once per rule: choose the rule outside
// the loop with UpdateRule::Visit. w, state and g must not overlap; all are
// aligned for float, nothing more; n is at least 1. A gradient of zeros moves
// no weight that had no gradient yet, but for the decay of adamw and lars.
// Rules are immutable and thread-safe. The arithmetic is single precision
// unless the rule says otherwise, in the order written there, so that the
// result is the same on every vector width.
//
// Apply's parts, for those who have other loops (the kernels of GPUs). State is
// kOwn arrays of n floats, a float of each for a weight, then kShared floats
// that all n weights share.
//
//   void Update(g, w, own...)           one weight and its kOwn floats
//
// Rules that compute something once for all weights of an update do it in
//
//   Begun Begin(shared)                 first; then Update(begun, g, w, own...)
//
// and where that goes by means over the weights, Begin(means, n, shared) takes
// those of
//
//   RuleMeans Terms(w, g, shared)       of one weight, before Begin
//
// Defaults: a field of OptimizerConfig that is not set means the rule's
// default. 0 is a value like others.

#ifndef OARLOCK_OPTIM_RULES_H_
#define OARLOCK_OPTIM_RULES_H_

#include <cstddef>
#include <cstdint>
#include <type_traits>
#include <utility>
#include <variant>

#include "absl/status/statusor.h"
#include "optim/any_rule.h"
#include "optim/rate_schedule.h"
#include "proto/v1/table.pb.h"

namespace oarlock::optim {

// Whether loops over rows are compiled for this rule by itself, so that it is
// worth specialising them further. All others share those of AnyRule.
template <typename Rule>
inline constexpr bool kHasOwnLoops =
    std::is_same_v<Rule, SgdRule> || std::is_same_v<Rule, AdagradRule> ||
    std::is_same_v<Rule, AdamRule> || std::is_same_v<Rule, FtrlRule>;

// One of the rules, chosen at run time, with its options and its schedule.
class UpdateRule {
 public:
  // InvalidArgument when no rule is set, or a number or a combination is not
  // what table.proto allows. A learning rate may be 0 (frozen weights) or, but
  // for ftrl, negative (the tests' counters).
  static absl::StatusOr<UpdateRule> Create(const v1::OptimizerConfig& config);

  // Calls `visitor` with the rule's own struct if it has loops of its own and
  // no options, else with an AnyRule.
  template <typename Visitor>
  decltype(auto) Visit(Visitor&& visitor) const {
    if (!rule_.options().any()) {
      if (const auto* rule = std::get_if<SgdRule>(&rule_.rule())) {
        return visitor(*rule);
      }
      if (const auto* rule = std::get_if<AdagradRule>(&rule_.rule())) {
        return visitor(*rule);
      }
      if (const auto* rule = std::get_if<AdamRule>(&rule_.rule())) {
        return visitor(*rule);
      }
      if (const auto* rule = std::get_if<FtrlRule>(&rule_.rule())) {
        return visitor(*rule);
      }
    }
    return visitor(rule_);
  }

  bool TakesMeans() const { return rule_.TakesMeans(); }
  size_t StateSize(size_t n) const { return rule_.StateSize(n); }
  void InitState(float* state, size_t n) const { rule_.InitState(state, n); }

  // What Visit gave, as it is in step number `step`, counted from 1: with
  // warm-up and schedule in its learning rate, and `rate_factor`.
  template <typename Rule>
  Rule ForStep(const Rule& rule, uint64_t step, float rate_factor = 1) const {
    return AtStep(rule, step, schedule_.Factor(step) * rate_factor);
  }

  AnyRule ForStep(uint64_t step) const { return ForStep(rule_, step); }

  // What warm-up and schedule make of the learning rate in that step.
  float RateFactor(uint64_t step) const { return schedule_.Factor(step); }

  // Updates w[n] and state by g[n] as step number `step`, at `rate_factor` of
  // its learning rate. For long vectors: one dispatch per call, on the widest
  // instructions of the machine, with the result of the rule's own loop bit by
  // bit. Loops over rows use Visit.
  void Apply(uint64_t step, float* w, float* state, const float* g, size_t n,
             float rate_factor = 1) const;

 private:
  UpdateRule(const AnyRule& rule, RateSchedule schedule)
      : rule_(rule), schedule_(std::move(schedule)) {}

  AnyRule rule_;
  RateSchedule schedule_;
};

}  // namespace oarlock::optim

#endif  // OARLOCK_OPTIM_RULES_H_
