// Adam and its relatives. What a rule is: optim/rules.h.
//
// They differ in how old a weight is taken to be, in what is shared and in how
// weights decay:
//
//   adam         age: updates of these weights; nothing is shared
//   lazy adam    age: steps of the table
//   shared adam  as adam, but one second moment for all weights of a row
//   adamw        as adam, and weights decay beside the gradient
//
// All of them are lazy in that moments of a sparse row move only when a
// gradient comes: between two of its gradients a row is not touched.

#ifndef OARLOCK_OPTIM_ADAM_RULES_H_
#define OARLOCK_OPTIM_ADAM_RULES_H_

#include <cmath>
#include <cstddef>
#include <cstdint>

#include "optim/mean_of_squares.h"
#include "optim/rule_code.h"

namespace oarlock::optim {

// What the relatives have in common.
struct AdamMoments {
  static constexpr float kDefaultBeta1 = 0.9f;
  static constexpr float kDefaultBeta2 = 0.999f;
  static constexpr float kDefaultEpsilon = 1e-8f;

  float beta1 = kDefaultBeta1;
  float beta2 = kDefaultBeta2;
  float epsilon = kDefaultEpsilon;

  // `learning_rate` with the bias correction of the next update. correction[2]
  // holds 1 - beta1^t and 1 - beta2^t, at first 0: kept instead of t or of the
  // powers because c' = beta * c + (1 - beta) loses no digits while beta^t is
  // near 1.
  OARLOCK_RULE_CODE float NextRate(float learning_rate,
                                   float* correction) const {
    correction[0] = beta1 * correction[0] + (1.0f - beta1);
    correction[1] = beta2 * correction[1] + (1.0f - beta2);
    return learning_rate * std::sqrt(correction[1]) / correction[0];
  }

  OARLOCK_RULE_CODE void MoveFirst(float g, float& m) const {
    m = beta1 * m + (1.0f - beta1) * g;
  }
  OARLOCK_RULE_CODE void Move(float g, float& m, float& v) const {
    MoveFirst(g, m);
    v = beta2 * v + (1.0f - beta2) * (g * g);
  }
  // What m is divided by.
  OARLOCK_RULE_CODE float Root(float v) const { return std::sqrt(v) + epsilon; }
};

// Calls rule.Update(begun..., g, w, m, v) for each weight, with moments m[n],
// v[n] at the head of `state`. The rule is a copy, so that the compiler knows
// that no weight is a part of it.
template <typename Rule, typename... Begun>
void UpdateWithMoments(const Rule rule, float* __restrict w,
                       float* __restrict state, const float* __restrict g,
                       size_t n, Begun... begun) {
  float* __restrict m = state;
  float* __restrict v = state + n;
  for (size_t i = 0; i < n; ++i) rule.Update(begun..., g[i], w[i], m[i], v[i]);
}

// Adam (Kingma, Ba, "Adam: a method for stochastic optimization", ICLR 2015,
// end of section 2: bias correction folded into the step size), with t the
// number of updates of these weights, not of the job, so that a rare row is
// corrected by its own age:
//
//   m = beta1 * m + (1 - beta1) * g
//   v = beta2 * v + (1 - beta2) * g * g
//   w -= lr * sqrt(1 - beta2^t) / (1 - beta1^t) * m / (sqrt(v) + epsilon)
//
// State: m[n], v[n], 1 - beta1^t, 1 - beta2^t; all 0 at first.
struct AdamRule {
  static constexpr size_t kOwn = 2;
  static constexpr size_t kShared = 2;
  using Begun = float;  // the learning rate, corrected

  float learning_rate = 0;
  AdamMoments moments = {};

  static constexpr size_t StateSize(size_t n) { return 2 * n + 2; }
  void InitState(float* state, size_t n) const {
    for (size_t i = 0; i < StateSize(n); ++i) state[i] = 0;
  }
  OARLOCK_RULE_CODE float Begin(float* correction) const {
    return moments.NextRate(learning_rate, correction);
  }
  OARLOCK_RULE_CODE void Update(float rate, float g, float& w, float& m,
                                float& v) const {
    moments.Move(g, m, v);
    w = w - rate * m / moments.Root(v);
  }
  void Apply(float* __restrict w, float* __restrict state,
             const float* __restrict g, size_t n) const {
    UpdateWithMoments(*this, w, state, g, n, Begin(state + 2 * n));
  }
};

// Lazy Adam, as TensorFlow's LazyAdamOptimizer: Adam's formulas with t the
// number of steps of the table (pushes to the partition, steps of the block),
// while m and v of a row move only when a gradient comes. A row whose first
// gradient comes late has no correction left: its first step is as long as
// (1 - beta1) / sqrt(1 - beta2), 3.2 at the defaults, learning rates, where
// AdamRule's is one learning rate. On dense blocks the two agree.
//
// State: m[n], v[n]; all 0 at first. The age is the step's, so a row needs two
// floats less than under AdamRule.
struct LazyAdamRule {
  static constexpr size_t kOwn = 2;
  static constexpr size_t kShared = 0;

  float learning_rate = 0;
  AdamMoments moments = {};

  // Called for each step with its number, counted from 1.
  void BeginStep(uint64_t step) {
    const double t = static_cast<double>(step);
    learning_rate *=
        static_cast<float>(std::sqrt(1 - std::pow(double{moments.beta2}, t)) /
                           (1 - std::pow(double{moments.beta1}, t)));
  }
  static constexpr size_t StateSize(size_t n) { return 2 * n; }
  void InitState(float* state, size_t n) const {
    for (size_t i = 0; i < StateSize(n); ++i) state[i] = 0;
  }
  OARLOCK_RULE_CODE void Update(float g, float& w, float& m, float& v) const {
    moments.Move(g, m, v);
    w = w - learning_rate * m / moments.Root(v);
  }
  void Apply(float* __restrict w, float* __restrict state,
             const float* __restrict g, size_t n) const {
    UpdateWithMoments(*this, w, state, g, n);
  }
};

// Adam with one second moment for the n weights of a row (FBGEMM's
// PARTIAL_ROWWISE_ADAM), t as in AdamRule:
//
//   m_i = beta1 * m_i + (1 - beta1) * g_i
//   v = beta2 * v + (1 - beta2) * mean over i of g_i * g_i
//   w_i -= lr * sqrt(1 - beta2^t) / (1 - beta1^t) * m_i / (sqrt(v) + epsilon)
//
// In a dense table the n weights are those of a block.
//
// State: m[n], v, 1 - beta1^t, 1 - beta2^t; all 0 at first.
struct SharedAdamRule {
  static constexpr size_t kOwn = 1;
  static constexpr size_t kShared = 3;
  using Begun = float;  // the step for a first moment of 1

  float learning_rate = 0;
  AdamMoments moments = {};

  static constexpr size_t StateSize(size_t n) { return n + 3; }
  void InitState(float* state, size_t n) const {
    for (size_t i = 0; i < StateSize(n); ++i) state[i] = 0;
  }
  OARLOCK_RULE_CODE RuleMeans Terms(float, float g, const float*) const {
    return {double{g} * g, 0};
  }
  // `shared`: v and what NextRate takes.
  OARLOCK_RULE_CODE float Begin(const RuleMeans& of_squares, size_t,
                                float* shared) const {
    float& v = shared[0];
    v = moments.beta2 * v +
        (1.0f - moments.beta2) * static_cast<float>(of_squares.first);
    return moments.NextRate(learning_rate, shared + 1) / moments.Root(v);
  }
  OARLOCK_RULE_CODE void Update(float step, float g, float& w, float& m) const {
    moments.MoveFirst(g, m);
    w -= step * m;
  }
  void Apply(float* __restrict w, float* __restrict state,
             const float* __restrict g, size_t n) const {
    float* __restrict m = state;
    const float step = Begin({MeanOfSquares(g, n), 0}, n, state + n);
    for (size_t i = 0; i < n; ++i) Update(step, g[i], w[i], m[i]);
  }
};

// AdamW (Loshchilov, Hutter, "Decoupled weight decay regularization", ICLR
// 2019; the decay times the learning rate, as in PyTorch and PaddlePaddle):
// m, v and t as in AdamRule,
//
//   w -= lr * weight_decay * w
//      + lr * sqrt(1 - beta2^t) / (1 - beta1^t) * m / (sqrt(v) + epsilon)
//
// A sparse row decays when a gradient comes, so by its own age.
//
// State: as AdamRule.
struct AdamwRule {
  static constexpr size_t kOwn = 2;
  static constexpr size_t kShared = 2;
  using Begun = float;  // as of AdamRule
  static constexpr float kDefaultWeightDecay = 0.01f;

  float learning_rate = 0;
  AdamMoments moments = {};
  float weight_decay = kDefaultWeightDecay;

  static constexpr size_t StateSize(size_t n) { return 2 * n + 2; }
  void InitState(float* state, size_t n) const {
    for (size_t i = 0; i < StateSize(n); ++i) state[i] = 0;
  }
  OARLOCK_RULE_CODE float Begin(float* correction) const {
    return moments.NextRate(learning_rate, correction);
  }
  OARLOCK_RULE_CODE void Update(float rate, float g, float& w, float& m,
                                float& v) const {
    moments.Move(g, m, v);
    const float decay = learning_rate * weight_decay;
    w = w - (decay * w + rate * m / moments.Root(v));
  }
  void Apply(float* __restrict w, float* __restrict state,
             const float* __restrict g, size_t n) const {
    UpdateWithMoments(*this, w, state, g, n, Begin(state + 2 * n));
  }
};

}  // namespace oarlock::optim

#endif  // OARLOCK_OPTIM_ADAM_RULES_H_
