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

namespace oarlock {

// SparseAdaGradSGDRule ("adagrad"): one accumulator for a row, the step is
// computed before it grows, and the learning rate counts where G is small
// against G0:
//
//   w_i -= lr * g_i * sqrt(G0 / (G0 + G))
//   G += mean over i of g_i * g_i
//
// State: G, at first 0.
struct PaddleAdagradRule {
  static constexpr float kDefaultInitialG2sum = 3.0f;

  float learning_rate = 0;
  float initial_g2sum = kDefaultInitialG2sum;

  static constexpr size_t StateSize(size_t) { return 1; }
  void InitState(float* state, size_t) const { *state = 0; }
  void Apply(float* __restrict w, float* __restrict g2sum,
             const float* __restrict g, size_t n) const {
    const float root = std::sqrt(initial_g2sum / (initial_g2sum + *g2sum));
    double added = 0;
    for (size_t i = 0; i < n; ++i) {
      const double gradient = g[i];
      w[i] = static_cast<float>(w[i] - learning_rate * gradient * root);
      added += gradient * gradient;
    }
    *g2sum = static_cast<float>(*g2sum + added / static_cast<double>(n));
  }
};

// StdAdaGradSGDRule ("std_adagrad"): the same with a G for every weight.
//
// State: G[n], at first 0.
struct PaddleStdAdagradRule {
  float learning_rate = 0;
  float initial_g2sum = PaddleAdagradRule::kDefaultInitialG2sum;

  static constexpr size_t StateSize(size_t n) { return n; }
  void InitState(float* state, size_t n) const {
    for (size_t i = 0; i < n; ++i) state[i] = 0;
  }
  void Apply(float* __restrict w, float* __restrict g2sum,
             const float* __restrict g, size_t n) const {
    for (size_t i = 0; i < n; ++i) {
      const double gradient = g[i];
      const float root = std::sqrt(initial_g2sum / (initial_g2sum + g2sum[i]));
      w[i] = static_cast<float>(w[i] - learning_rate * gradient * root);
      g2sum[i] = static_cast<float>(g2sum[i] + gradient * gradient);
    }
  }
};

// SparseAdaGradV2SGDRule ("adagrad_v2"): one accumulator, grown first:
//
//   G += mean over i of g_i * g_i
//   w_i -= lr * g_i / (sqrt(G) + 1e-8)
//
// State: G, at first 0.
struct PaddleAdagradV2Rule {
  static constexpr float kEpsilon = 1e-8f;

  float learning_rate = 0;

  static constexpr size_t StateSize(size_t) { return 1; }
  void InitState(float* state, size_t) const { *state = 0; }
  void Apply(float* __restrict w, float* __restrict g2sum,
             const float* __restrict g, size_t n) const {
    double added = 0;
    for (size_t i = 0; i < n; ++i) {
      const double gradient = g[i];
      added += gradient * gradient;
    }
    *g2sum = static_cast<float>(*g2sum + added / static_cast<double>(n));
    const float root = std::sqrt(*g2sum) + kEpsilon;
    for (size_t i = 0; i < n; ++i) {
      const double gradient = g[i];
      w[i] = static_cast<float>(w[i] - learning_rate * gradient / root);
    }
  }
};

// SparseAdamSGDRule ("adam"): AdamRule's formulas, with the powers themselves
// in the state, which costs digits while they are near 1.
//
// State: m[n], v[n], beta1^t, beta2^t; at first 0, 0, beta1, beta2.
struct PaddleAdamRule {
  float learning_rate = 0;
  AdamMoments moments = {};

  static constexpr size_t StateSize(size_t n) { return 2 * n + 2; }
  void InitState(float* state, size_t n) const {
    for (size_t i = 0; i < 2 * n; ++i) state[i] = 0;
    state[2 * n] = moments.beta1;
    state[2 * n + 1] = moments.beta2;
  }
  void Apply(float* __restrict w, float* __restrict state,
             const float* __restrict g, size_t n) const {
    float* __restrict m = state;
    float* __restrict v = state + n;
    float* __restrict powers = state + 2 * n;
    const auto [beta1, beta2, epsilon] = moments;
    const float rate =
        learning_rate * (std::sqrt(1 - powers[1]) / (1 - powers[0]));
    for (size_t i = 0; i < n; ++i) {
      m[i] = beta1 * m[i] + (1 - beta1) * g[i];
      v[i] = beta2 * v[i] + (1 - beta2) * g[i] * g[i];
      w[i] = w[i] - rate * (m[i] / (std::sqrt(v[i]) + epsilon));
    }
    powers[0] *= beta1;
    powers[1] *= beta2;
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
  float learning_rate = 0;
  AdamMoments moments = {};

  static constexpr size_t StateSize(size_t) { return 4; }
  void InitState(float* state, size_t) const {
    state[0] = 0;
    state[1] = 0;
    state[2] = moments.beta1;
    state[3] = moments.beta2;
  }
  void Apply(float* __restrict w, float* __restrict state,
             const float* __restrict g, size_t n) const {
    const auto [beta1, beta2, epsilon] = moments;
    const float rate =
        learning_rate * (std::sqrt(1 - state[3]) / (1 - state[2]));
    const float m = state[0];
    const float v = state[1];
    double sum_m = 0;
    double sum_v = 0;
    for (size_t i = 0; i < n; ++i) {
      const double new_m = beta1 * m + (1 - beta1) * g[i];
      const double new_v = beta2 * v + (1 - beta2) * g[i] * g[i];
      w[i] = static_cast<float>(w[i] -
                                rate * (new_m / (std::sqrt(new_v) + epsilon)));
      sum_m += new_m;
      sum_v += new_v;
    }
    state[0] = static_cast<float>(sum_m / static_cast<double>(n));
    state[1] = static_cast<float>(sum_v / static_cast<double>(n));
    state[2] *= beta1;
    state[3] *= beta2;
  }
};

}  // namespace oarlock

#endif  // OARLOCK_OPTIM_PADDLE_RULES_H_
