// LARS: momentum whose step is a share of the weights' own length. What a rule
// is: optim/rules.h.

#ifndef OARLOCK_OPTIM_LARS_RULE_H_
#define OARLOCK_OPTIM_LARS_RULE_H_

#include <cmath>
#include <cstddef>

#include "optim/mean_of_squares.h"

namespace oarlock {

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
  float RateOf(const float* __restrict w, const float* __restrict g,
               size_t n) const {
    if (weight_decay == 0) return learning_rate;
    const float size = static_cast<float>(n);
    const float w_norm = std::sqrt(MeanOfSquares(w, n) * size);
    const float g_norm = std::sqrt(MeanOfSquares(g, n) * size);
    if (w_norm == 0 || g_norm == 0) return learning_rate;
    return learning_rate * coefficient * w_norm /
           (g_norm + weight_decay * w_norm + epsilon);
  }
  void Apply(float* __restrict w, float* __restrict velocity,
             const float* __restrict g, size_t n) const {
    const float rate = RateOf(w, g, n);
    for (size_t i = 0; i < n; ++i) {
      const float v =
          momentum * velocity[i] + rate * (g[i] + weight_decay * w[i]);
      velocity[i] = v;
      w[i] -= v;
    }
  }
};

}  // namespace oarlock

#endif  // OARLOCK_OPTIM_LARS_RULE_H_
