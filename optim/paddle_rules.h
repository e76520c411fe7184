// PaddlePaddle's own forms of the sparse rules, for those who want its results
// or its state: the sparse_sgd_rule.cc of its parameter server (2.3 to 3.0),
// operation by operation, in double precision where it computes in doubles.
// What a rule is: optim/rules.h.
//
// Three things are not the rule's:
//
// - Its `scale`, the show count that adagrad's gradients are divided by when
//   show_scale is on: here gradients come divided, s = 1.
// - Weight bounds: an option of every rule (weight_options.h), by default -10
//   and 10 for its adagrad rules and for paddle_naive, which is SgdRule, as its
//   Python layer sets them. It makes a NaN the lower bound; here NaN stays NaN.
// - Initial values (initializer.h).

#ifndef OARLOCK_OPTIM_PADDLE_RULES_H_
#define OARLOCK_OPTIM_PADDLE_RULES_H_

#include <cmath>
#include <cstddef>

#include "optim/adam_rules.h"
#include "optim/rule_code.h"

namespace oarlock::optim {

// SparseAdaGradSGDRule ("adagrad"): one accumulator for a row, the step is
// computed before it grows, and the learning rate counts where G is small
// against G0:
//
//   w_i -= lr * g_i * sqrt(G0 / (G0 + G))
//   G += mean over i of g_i * g_i
//
// State: G, at first 0.
struct PaddleAdagradRule {
  static constexpr size_t kOwn = 0;
  static constexpr size_t kShared = 1;
  using Begun = float;  // sqrt(G0 / (G0 + G))
  static constexpr float kDefaultInitialG2sum = 3.0f;

  float learning_rate = 0;
  float initial_g2sum = kDefaultInitialG2sum;

  static constexpr size_t StateSize(size_t) { return 1; }
  void InitState(float* state, size_t) const { *state = 0; }
  OARLOCK_RULE_CODE RuleMeans Terms(float, float g, const float*) const {
    return {double{g} * g, 0};
  }
  OARLOCK_RULE_CODE float Begin(const RuleMeans& of_squares, size_t,
                                float* g2sum) const {
    const float root = std::sqrt(initial_g2sum / (initial_g2sum + *g2sum));
    *g2sum = static_cast<float>(*g2sum + of_squares.first);
    return root;
  }
  OARLOCK_RULE_CODE void Update(float root, float g, float& w) const {
    const double gradient = g;
    w = static_cast<float>(w - learning_rate * gradient * root);
  }
  void Apply(float* __restrict w, float* __restrict g2sum,
             const float* __restrict g, size_t n) const {
    double added = 0;
    for (size_t i = 0; i < n; ++i) added += Terms(w[i], g[i], g2sum).first;
    const float root = Begin({added / static_cast<double>(n), 0}, n, g2sum);
    for (size_t i = 0; i < n; ++i) Update(root, g[i], w[i]);
  }
};

// StdAdaGradSGDRule ("std_adagrad"): the same with a G for every weight.
//
// State: G[n], at first 0.
struct PaddleStdAdagradRule {
  static constexpr size_t kOwn = 1;
  static constexpr size_t kShared = 0;

  float learning_rate = 0;
  float initial_g2sum = PaddleAdagradRule::kDefaultInitialG2sum;

  static constexpr size_t StateSize(size_t n) { return n; }
  void InitState(float* state, size_t n) const {
    for (size_t i = 0; i < n; ++i) state[i] = 0;
  }
  OARLOCK_RULE_CODE void Update(float g, float& w, float& g2sum) const {
    const double gradient = g;
    const float root = std::sqrt(initial_g2sum / (initial_g2sum + g2sum));
    w = static_cast<float>(w - learning_rate * gradient * root);
    g2sum = static_cast<float>(g2sum + gradient * gradient);
  }
  void Apply(float* __restrict w, float* __restrict g2sum,
             const float* __restrict g, size_t n) const {
    for (size_t i = 0; i < n; ++i) Update(g[i], w[i], g2sum[i]);
  }
};

// SparseAdaGradV2SGDRule ("adagrad_v2"): one accumulator, grown first:
//
//   G += mean over i of g_i * g_i
//   w_i -= lr * g_i / (sqrt(G) + 1e-8)
//
// State: G, at first 0.
struct PaddleAdagradV2Rule {
  static constexpr size_t kOwn = 0;
  static constexpr size_t kShared = 1;
  using Begun = float;  // sqrt(G) + 1e-8
  static constexpr float kEpsilon = 1e-8f;

  float learning_rate = 0;

  static constexpr size_t StateSize(size_t) { return 1; }
  void InitState(float* state, size_t) const { *state = 0; }
  OARLOCK_RULE_CODE RuleMeans Terms(float, float g, const float*) const {
    return {double{g} * g, 0};
  }
  OARLOCK_RULE_CODE float Begin(const RuleMeans& of_squares, size_t,
                                float* g2sum) const {
    *g2sum = static_cast<float>(*g2sum + of_squares.first);
    return std::sqrt(*g2sum) + kEpsilon;
  }
  OARLOCK_RULE_CODE void Update(float root, float g, float& w) const {
    const double gradient = g;
    w = static_cast<float>(w - learning_rate * gradient / root);
  }
  void Apply(float* __restrict w, float* __restrict g2sum,
             const float* __restrict g, size_t n) const {
    double added = 0;
    for (size_t i = 0; i < n; ++i) added += Terms(w[i], g[i], g2sum).first;
    const float root = Begin({added / static_cast<double>(n), 0}, n, g2sum);
    for (size_t i = 0; i < n; ++i) Update(root, g[i], w[i]);
  }
};

// SparseAdamSGDRule ("adam"): AdamRule's formulas, with the powers themselves
// in the state, which costs digits while they are near 1.
//
// State: m[n], v[n], beta1^t, beta2^t; at first 0, 0, beta1, beta2.
struct PaddleAdamRule {
  static constexpr size_t kOwn = 2;
  static constexpr size_t kShared = 2;
  using Begun = float;  // the learning rate, corrected

  float learning_rate = 0;
  AdamMoments moments = {};

  static constexpr size_t StateSize(size_t n) { return 2 * n + 2; }
  void InitState(float* state, size_t n) const {
    for (size_t i = 0; i < 2 * n; ++i) state[i] = 0;
    state[2 * n] = moments.beta1;
    state[2 * n + 1] = moments.beta2;
  }
  OARLOCK_RULE_CODE float Begin(float* powers) const {
    const float rate =
        learning_rate * (std::sqrt(1 - powers[1]) / (1 - powers[0]));
    powers[0] *= moments.beta1;
    powers[1] *= moments.beta2;
    return rate;
  }
  OARLOCK_RULE_CODE void Update(float rate, float g, float& w, float& m,
                                float& v) const {
    const auto [beta1, beta2, epsilon] = moments;
    m = beta1 * m + (1 - beta1) * g;
    v = beta2 * v + (1 - beta2) * g * g;
    w = w - rate * (m / (std::sqrt(v) + epsilon));
  }
  void Apply(float* __restrict w, float* __restrict state,
             const float* __restrict g, size_t n) const {
    UpdateWithMoments(*this, w, state, g, n, Begin(state + 2 * n));
  }
};

// SparseSharedAdamSGDRule ("shared_adam"): both moments are one number for the
// row. Each weight takes a step of its own from them; then they become the
// means over the weights:
//
//   m_i = beta1 * m + (1 - beta1) * g_i,  v_i = beta2 * v + (1 - beta2) * g_i^2
//   w_i -= lr * sqrt(1 - beta2^t) / (1 - beta1^t) * m_i / (sqrt(v_i) + epsilon)
//   m = mean over i of m_i,  v = mean over i of v_i
//
// State: m, v, beta1^t, beta2^t; at first 0, 0, beta1, beta2.
struct PaddleSharedAdamRule {
  static constexpr size_t kOwn = 0;
  static constexpr size_t kShared = 4;
  struct Begun {
    float rate;  // the learning rate, corrected
    float m;     // before the update
    float v;
  };

  float learning_rate = 0;
  AdamMoments moments = {};

  static constexpr size_t StateSize(size_t) { return 4; }
  void InitState(float* state, size_t) const {
    state[0] = 0;
    state[1] = 0;
    state[2] = moments.beta1;
    state[3] = moments.beta2;
  }
  // The new moments of a weight, in the first two of `shared` those of all.
  OARLOCK_RULE_CODE RuleMeans Terms(float, float g, const float* shared) const {
    const float beta1 = moments.beta1;
    const float beta2 = moments.beta2;
    return {beta1 * shared[0] + (1 - beta1) * g,
            beta2 * shared[1] + (1 - beta2) * g * g};
  }
  OARLOCK_RULE_CODE Begun Begin(const RuleMeans& new_moments, size_t,
                                float* shared) const {
    const Begun begun = {
        learning_rate * (std::sqrt(1 - shared[3]) / (1 - shared[2])), shared[0],
        shared[1]};
    shared[0] = static_cast<float>(new_moments.first);
    shared[1] = static_cast<float>(new_moments.second);
    shared[2] *= moments.beta1;
    shared[3] *= moments.beta2;
    return begun;
  }
  OARLOCK_RULE_CODE void Update(const Begun& begun, float g, float& w) const {
    const float old[] = {begun.m, begun.v};
    const RuleMeans moved = Terms(w, g, old);
    w = static_cast<float>(
        w - begun.rate *
                (moved.first / (std::sqrt(moved.second) + moments.epsilon)));
  }
  void Apply(float* __restrict w, float* __restrict state,
             const float* __restrict g, size_t n) const {
    RuleMeans means = {0, 0};
    for (size_t i = 0; i < n; ++i) means += Terms(w[i], g[i], state);
    means.first /= static_cast<double>(n);
    means.second /= static_cast<double>(n);
    const Begun begun = Begin(means, n, state);
    for (size_t i = 0; i < n; ++i) Update(begun, g[i], w[i]);
  }
};

}  // namespace oarlock::optim

#endif  // OARLOCK_OPTIM_PADDLE_RULES_H_
