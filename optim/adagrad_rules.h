// Adagrad, with an accumulator for each weight and with one for all of them.
// What a rule is: optim/rules.h.

#ifndef OARLOCK_OPTIM_ADAGRAD_RULES_H_
#define OARLOCK_OPTIM_ADAGRAD_RULES_H_

#include <cmath>
#include <cstddef>

#include "optim/mean_of_squares.h"
#include "optim/rule_code.h"

namespace oarlock::optim {

// Adagrad (Duchi, Hazan, Singer, "Adaptive subgradient methods", JMLR 12,
// 2011; epsilon added to the root as in PyTorch and the Deep Learning book):
//
//   G += g * g
//   w -= lr * g / (sqrt(G) + epsilon)
//
// State: G[n], at first `initial_accumulator` (default 0).
struct AdagradRule {
  static constexpr size_t kOwn = 1;
  static constexpr size_t kShared = 0;
  static constexpr float kDefaultEpsilon = 1e-10f;

  float learning_rate = 0;
  float initial_accumulator = 0;
  float epsilon = kDefaultEpsilon;

  static constexpr size_t StateSize(size_t n) { return n; }
  void InitState(float* state, size_t n) const {
    for (size_t i = 0; i < n; ++i) state[i] = initial_accumulator;
  }
  OARLOCK_RULE_CODE void Update(float g, float& w, float& sum) const {
    const float grown = sum + g * g;
    sum = grown;
    w -= learning_rate * g / (std::sqrt(grown) + epsilon);
  }
  void Apply(float* __restrict w, float* __restrict sum,
             const float* __restrict g, size_t n) const {
    for (size_t i = 0; i < n; ++i) Update(g[i], w[i], sum[i]);
  }
};

// Adagrad with one accumulator for the n weights of a row ("row-wise": Mudigere
// et al., "Software-hardware co-design for fast and scalable training of deep
// learning recommendation models", ISCA 2022, section 4.1.4; the mean, as
// FBGEMM's EXACT_ROWWISE_ADAGRAD takes it):
//
//   G += mean over i of g_i * g_i
//   w_i -= lr * g_i / (sqrt(G) + epsilon)
//
// n times less state than adagrad. In a dense table the n weights are those of
// a block.
//
// State: G, at first `initial_accumulator` (default 0).
struct SharedAdagradRule {
  static constexpr size_t kOwn = 0;
  static constexpr size_t kShared = 1;
  using Begun = float;  // the step for a gradient of 1

  float learning_rate = 0;
  float initial_accumulator = 0;
  float epsilon = AdagradRule::kDefaultEpsilon;

  static constexpr size_t StateSize(size_t) { return 1; }
  void InitState(float* state, size_t) const { *state = initial_accumulator; }
  OARLOCK_RULE_CODE RuleMeans Terms(float, float g, const float*) const {
    return {double{g} * g, 0};
  }
  OARLOCK_RULE_CODE float Begin(const RuleMeans& of_squares, size_t,
                                float* sum) const {
    *sum += static_cast<float>(of_squares.first);
    return learning_rate / (std::sqrt(*sum) + epsilon);
  }
  OARLOCK_RULE_CODE void Update(float step, float g, float& w) const {
    w -= step * g;
  }
  void Apply(float* __restrict w, float* __restrict sum,
             const float* __restrict g, size_t n) const {
    const float step = Begin({MeanOfSquares(g, n), 0}, n, sum);
    for (size_t i = 0; i < n; ++i) Update(step, g[i], w[i]);
  }
};

}  // namespace oarlock::optim

#endif  // OARLOCK_OPTIM_ADAGRAD_RULES_H_
