// LARS: momentum whose step is a share of the weights' own length. What a rule
// is: optim/rules.h.

#ifndef OARLOCK_OPTIM_LARS_RULE_H_
#define OARLOCK_OPTIM_LARS_RULE_H_

#include <cmath>
#include <cstddef>

#include "optim/mean_of_squares.h"
#include "optim/rule_code.h"

namespace oarlock::optim {

// LARS (You, Gitman, Ginsburg, "Large batch training of convolutional
// networks", 2017, algorithm 1; the same as PaddlePaddle's LarsMomentum, with
// its names and defaults), |.| being the Euclidean norm of all n weights:
//
//   rate = lr * coefficient * |w| / (|g| + weight_decay * |w| + epsilon)
//   v = momentum * v + rate * (g + weight_decay * w)
//   w -= v
//
// and rate = lr where |w| or |g| is 0, or weight_decay is 0: so are biases and
// the parameters of batch norm trained, which as a rule do not decay.
//
// The n weights are to be one parameter of a network. A block of a dense table
// is not, so servers have no use for this rule; DenseOptimizer has.
//
// State: v[n], at first 0.
struct LarsRule {
  static constexpr size_t kOwn = 1;
  static constexpr size_t kShared = 0;
  using Begun = float;  // the rate
  static constexpr float kDefaultMomentum = 0.9f;
  static constexpr float kDefaultCoefficient = 0.001f;
  static constexpr float kDefaultWeightDecay = 0.0005f;

  float learning_rate = 0;
  float momentum = kDefaultMomentum;
  float coefficient = kDefaultCoefficient;
  float weight_decay = kDefaultWeightDecay;
  float epsilon = 0;

  static constexpr size_t StateSize(size_t n) { return n; }
  void InitState(float* state, size_t n) const {
    for (size_t i = 0; i < n; ++i) state[i] = 0;
  }
  OARLOCK_RULE_CODE RuleMeans Terms(float w, float g, const float*) const {
    return {double{w} * w, double{g} * g};
  }
  OARLOCK_RULE_CODE float Begin(const RuleMeans& of_squares, size_t n,
                                float*) const {
    if (weight_decay == 0) return learning_rate;
    const float size = static_cast<float>(n);
    const float w_norm = std::sqrt(static_cast<float>(of_squares.first) * size);
    const float g_norm =
        std::sqrt(static_cast<float>(of_squares.second) * size);
    if (w_norm == 0 || g_norm == 0) return learning_rate;
    return learning_rate * coefficient * w_norm /
           (g_norm + weight_decay * w_norm + epsilon);
  }
  OARLOCK_RULE_CODE void Update(float rate, float g, float& w,
                                float& velocity) const {
    const float v = momentum * velocity + rate * (g + weight_decay * w);
    velocity = v;
    w -= v;
  }
  void Apply(float* __restrict w, float* __restrict velocity,
             const float* __restrict g, size_t n) const {
    RuleMeans of_squares = {0, 0};
    if (weight_decay != 0) {
      of_squares = {MeanOfSquares(w, n), MeanOfSquares(g, n)};
    }
    const float rate = Begin(of_squares, n, nullptr);
    for (size_t i = 0; i < n; ++i) Update(rate, g[i], w[i], velocity[i]);
  }
};

}  // namespace oarlock::optim

#endif  // OARLOCK_OPTIM_LARS_RULE_H_
