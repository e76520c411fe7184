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

namespace oarlock {

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
  float NextRate(float learning_rate, float* correction) const {
    correction[0] = beta1 * correction[0] + (1.0f - beta1);
    correction[1] = beta2 * correction[1] + (1.0f - beta2);
    return learning_rate * std::sqrt(correction[1]) / correction[0];
  }

  // Moves the moments m[n], v[n] at the head of `state` by the gradients, and
  // each weight to descend(w, m, sqrt(v) + epsilon).
  template <typename Descend>
  void Apply(float* __restrict w, float* __restrict state,
             const float* __restrict g, size_t n, Descend descend) const {
    float* __restrict m = state;
    float* __restrict v = state + n;
    const auto [beta1, beta2, epsilon] = *this;
    const float rest1 = 1.0f - beta1;
    const float rest2 = 1.0f - beta2;
    for (size_t i = 0; i < n; ++i) {
      m[i] = beta1 * m[i] + rest1 * g[i];
      v[i] = beta2 * v[i] + rest2 * (g[i] * g[i]);
      w[i] = descend(w[i], m[i], std::sqrt(v[i]) + epsilon);
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
// State: m[n], v[n], 1 - beta1^t, 1 - beta2^t; all 0 at first.
struct AdamRule {
  float learning_rate = 0;
  AdamMoments moments = {};

  static constexpr size_t StateSize(size_t n) { return 2 * n + 2; }
  void InitState(float* state, size_t n) const {
    for (size_t i = 0; i < StateSize(n); ++i) state[i] = 0;
  }
  void Apply(float* __restrict w, float* __restrict state,
             const float* __restrict g, size_t n) const {
    const float rate = moments.NextRate(learning_rate, state + 2 * n);
    moments.Apply(w, state, g, n, [rate](float weight, float m, float root) {
      return weight - rate * m / root;
    });
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
  void Apply(float* __restrict w, float* __restrict state,
             const float* __restrict g, size_t n) const {
    moments.Apply(w, state, g, n,
                  [rate = learning_rate](float weight, float m, float root) {
                    return weight - rate * m / root;
                  });
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
  float learning_rate = 0;
  AdamMoments moments = {};

  static constexpr size_t StateSize(size_t n) { return n + 3; }
  void InitState(float* state, size_t n) const {
    for (size_t i = 0; i < StateSize(n); ++i) state[i] = 0;
  }
  void Apply(float* __restrict w, float* __restrict state,
             const float* __restrict g, size_t n) const {
    float* __restrict m = state;
    float& v = state[n];
    const auto [beta1, beta2, epsilon] = moments;
    const float rest1 = 1.0f - beta1;
    v = beta2 * v + (1.0f - beta2) * MeanOfSquares(g, n);
    const float step = moments.NextRate(learning_rate, state + n + 1) /
                       (std::sqrt(v) + epsilon);
    for (size_t i = 0; i < n; ++i) {
      m[i] = beta1 * m[i] + rest1 * g[i];
      w[i] -= step * m[i];
    }
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
  static constexpr float kDefaultWeightDecay = 0.01f;

  float learning_rate = 0;
  AdamMoments moments = {};
  float weight_decay = kDefaultWeightDecay;

  static constexpr size_t StateSize(size_t n) { return 2 * n + 2; }
  void InitState(float* state, size_t n) const {
    for (size_t i = 0; i < StateSize(n); ++i) state[i] = 0;
  }
  void Apply(float* __restrict w, float* __restrict state,
             const float* __restrict g, size_t n) const {
    const float decay = learning_rate * weight_decay;
    const float rate = moments.NextRate(learning_rate, state + 2 * n);
    moments.Apply(w, state, g, n,
                  [decay, rate](float weight, float m, float root) {
                    return weight - (decay * weight + rate * m / root);
                  });
  }
};

}  // namespace oarlock

#endif  // OARLOCK_OPTIM_ADAM_RULES_H_
