// Gradient descent with a fixed step, without and with momentum. What a rule
// is: optim/rules.h.

#ifndef OARLOCK_OPTIM_SGD_RULES_H_
#define OARLOCK_OPTIM_SGD_RULES_H_

#include <cstddef>

#include "optim/rule_code.h"

namespace oarlock::optim {

// Stochastic gradient descent:
//
//   w -= lr * g
struct SgdRule {
  static constexpr size_t kOwn = 0;
  static constexpr size_t kShared = 0;

  float learning_rate = 0;

  static constexpr size_t StateSize(size_t) { return 0; }
  void InitState(float*, size_t) const {}
  OARLOCK_RULE_CODE void Update(float g, float& w) const {
    w -= learning_rate * g;
  }
  void Apply(float* __restrict w, float* __restrict, const float* __restrict g,
             size_t n) const {
    for (size_t i = 0; i < n; ++i) Update(g[i], w[i]);
  }
};

// Momentum (Polyak, "Some methods of speeding up the convergence of iteration
// methods", 1964), in the form of PaddlePaddle's Momentum and PyTorch's SGD:
//
//   v = momentum * v + g
//   w -= lr * v                          or, with `nesterov`,
//   w -= lr * (g + momentum * v)
//
// The second is Nesterov's method as Sutskever et al. write it ("On the
// importance of initialization and momentum in deep learning", ICML 2013). A
// sparse row moves only when a gradient comes, so its velocity is that of its
// own last gradients, however long ago.
//
// State: v[n], at first 0.
struct MomentumRule {
  static constexpr size_t kOwn = 1;
  static constexpr size_t kShared = 0;
  static constexpr float kDefaultMomentum = 0.9f;

  float learning_rate = 0;
  float momentum = kDefaultMomentum;
  bool nesterov = false;

  static constexpr size_t StateSize(size_t n) { return n; }
  void InitState(float* state, size_t n) const {
    for (size_t i = 0; i < n; ++i) state[i] = 0;
  }
  OARLOCK_RULE_CODE void UpdateByPolyak(float g, float& w, float& v) const {
    v = momentum * v + g;
    w -= learning_rate * v;
  }
  OARLOCK_RULE_CODE void UpdateByNesterov(float g, float& w, float& v) const {
    v = momentum * v + g;
    w -= learning_rate * (g + momentum * v);
  }
  OARLOCK_RULE_CODE void Update(float g, float& w, float& v) const {
    if (nesterov) {
      UpdateByNesterov(g, w, v);
    } else {
      UpdateByPolyak(g, w, v);
    }
  }
  void Apply(float* __restrict w, float* __restrict velocity,
             const float* __restrict g, size_t n) const {
    if (nesterov) {
      for (size_t i = 0; i < n; ++i) UpdateByNesterov(g[i], w[i], velocity[i]);
      return;
    }
    for (size_t i = 0; i < n; ++i) UpdateByPolyak(g[i], w[i], velocity[i]);
  }
};

}  // namespace oarlock::optim

#endif  // OARLOCK_OPTIM_SGD_RULES_H_
