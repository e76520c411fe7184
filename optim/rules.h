// Update rules: how a gradient changes weights. The same rule serves a sparse
// row (n = dim) and a dense block (n = floats in the block).
//
// Every rule is a small struct with
//
//   size_t StateSize(n)                 floats of optimizer state for n weights
//   void InitState(state, n)            the state of weights without a gradient
//   void Apply(w, state, g, n)          one update of w[n] and state by g[n]
//   Rule Scaled(factor)                 the same with learning rate * factor
//
// so that a loop over rows is compiled once per rule: choose the rule outside
// the loop with UpdateRule::Visit. w, state and g must not overlap; all are
// aligned for float, nothing more. Rules are immutable and thread-safe. The
// arithmetic is single precision, in the order written here, so that the
// result is the same on every vector width.
//
// Defaults: a field of OptimizerConfig that is 0 means the default below.

#ifndef OARLOCK_OPTIM_RULES_H_
#define OARLOCK_OPTIM_RULES_H_

#include <cmath>
#include <cstddef>
#include <cstdint>
#include <utility>
#include <variant>

#include "absl/status/statusor.h"
#include "proto/table.pb.h"

namespace oarlock {

// Stochastic gradient descent:
//
//   w -= lr * g
struct SgdRule {
  float learning_rate = 0;

  SgdRule Scaled(float factor) const {
    SgdRule scaled = *this;
    scaled.learning_rate *= factor;
    return scaled;
  }
  static constexpr size_t StateSize(size_t) { return 0; }
  void InitState(float*, size_t) const {}
  void Apply(float* __restrict w, float* __restrict, const float* __restrict g,
             size_t n) const {
    for (size_t i = 0; i < n; ++i) w[i] -= learning_rate * g[i];
  }
};

// Adagrad (Duchi, Hazan, Singer, "Adaptive subgradient methods", JMLR 12,
// 2011; epsilon added to the root as in PyTorch and the Deep Learning book):
//
//   G += g * g
//   w -= lr * g / (sqrt(G) + epsilon)
//
// State: G[n], at first `initial_accumulator` (default 0).
struct AdagradRule {
  static constexpr float kDefaultEpsilon = 1e-10f;

  float learning_rate = 0;
  float initial_accumulator = 0;
  float epsilon = kDefaultEpsilon;

  AdagradRule Scaled(float factor) const {
    AdagradRule scaled = *this;
    scaled.learning_rate *= factor;
    return scaled;
  }
  static constexpr size_t StateSize(size_t n) { return n; }
  void InitState(float* state, size_t n) const {
    for (size_t i = 0; i < n; ++i) state[i] = initial_accumulator;
  }
  void Apply(float* __restrict w, float* __restrict sum,
             const float* __restrict g, size_t n) const {
    for (size_t i = 0; i < n; ++i) {
      const float grown = sum[i] + g[i] * g[i];
      sum[i] = grown;
      w[i] -= learning_rate * g[i] / (std::sqrt(grown) + epsilon);
    }
  }
};

// Adam (Kingma, Ba, "Adam: a method for stochastic optimization", ICLR 2015,
// end of section 2: bias correction folded into the step size), with t the
// number of updates of these weights, not of the job, so that a rare row is
// corrected by its own age:
//
//   m = beta1 * m + (1 - beta1) * g
//   v = beta2 * v + (1 - beta2) * g * g
//   w -= lr * sqrt(1 - beta2^t) / (1 - beta1^t) * m / (sqrt(v) + epsilon)
//
// State: m[n], v[n], 1 - beta1^t, 1 - beta2^t; all 0 at first. The last two
// are kept instead of t or of the powers because c' = beta * c + (1 - beta)
// loses no digits while beta^t is near 1.
struct AdamRule {
  static constexpr float kDefaultBeta1 = 0.9f;
  static constexpr float kDefaultBeta2 = 0.999f;
  static constexpr float kDefaultEpsilon = 1e-8f;

  float learning_rate = 0;
  float beta1 = kDefaultBeta1;
  float beta2 = kDefaultBeta2;
  float epsilon = kDefaultEpsilon;

  AdamRule Scaled(float factor) const {
    AdamRule scaled = *this;
    scaled.learning_rate *= factor;
    return scaled;
  }
  static constexpr size_t StateSize(size_t n) { return 2 * n + 2; }
  void InitState(float* state, size_t n) const {
    for (size_t i = 0; i < StateSize(n); ++i) state[i] = 0;
  }
  void Apply(float* __restrict w, float* __restrict state,
             const float* __restrict g, size_t n) const {
    float* __restrict m = state;
    float* __restrict v = state + n;
    float* __restrict correction = state + 2 * n;
    const float rest1 = 1.0f - beta1;
    const float rest2 = 1.0f - beta2;
    correction[0] = beta1 * correction[0] + rest1;
    correction[1] = beta2 * correction[1] + rest2;
    const float step = learning_rate * std::sqrt(correction[1]) / correction[0];
    for (size_t i = 0; i < n; ++i) {
      m[i] = beta1 * m[i] + rest1 * g[i];
      v[i] = beta2 * v[i] + rest2 * (g[i] * g[i]);
      w[i] -= step * m[i] / (std::sqrt(v[i]) + epsilon);
    }
  }
};

// One of the rules, chosen at run time.
class UpdateRule {
 public:
  // InvalidArgument when no rule is set, a number is not finite, epsilon or
  // the initial accumulator is negative, or a beta is outside [0, 1). A
  // learning rate may be 0 (frozen weights) or negative (the tests' counters).
  static absl::StatusOr<UpdateRule> Create(const v1::OptimizerConfig& config);

  // Calls `visitor` with the rule's own struct.
  template <typename Visitor>
  decltype(auto) Visit(Visitor&& visitor) const {
    return std::visit(std::forward<Visitor>(visitor), rule_);
  }

  size_t StateSize(size_t n) const {
    return Visit([n](const auto& rule) { return rule.StateSize(n); });
  }
  void InitState(float* state, size_t n) const {
    Visit([=](const auto& rule) { rule.InitState(state, n); });
  }
  // Linear warm-up (Goyal et al., "Accurate, large minibatch SGD", 2017): the
  // factor on the learning rate of step number `step`, counted from 1,
  //
  //   min(1, step / warmup_steps)
  //
  // Rules like adagrad without an initial accumulator take first steps as long
  // as the learning rate, whatever the gradient; when several workers push
  // them at once, they add up.
  float WarmupFactor(uint64_t step) const {
    if (step >= warmup_steps_) return 1;
    return static_cast<float>(step) / static_cast<float>(warmup_steps_);
  }

  // Updates w[n] and state by g[n] as step number `step`. For long vectors:
  // one dispatch per call, on the widest instructions of the machine, with the
  // result of the scalar loops above bit by bit. Loops over rows use Visit.
  void Apply(uint64_t step, float* w, float* state, const float* g,
             size_t n) const;

 private:
  using Rule = std::variant<SgdRule, AdagradRule, AdamRule>;

  UpdateRule(Rule rule, uint32_t warmup_steps)
      : rule_(rule), warmup_steps_(warmup_steps) {}

  Rule rule_;
  uint32_t warmup_steps_;
};

}  // namespace oarlock

#endif  // OARLOCK_OPTIM_RULES_H_
