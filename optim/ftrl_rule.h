// FTRL-Proximal. What a rule is: optim/rules.h.

#ifndef OARLOCK_OPTIM_FTRL_RULE_H_
#define OARLOCK_OPTIM_FTRL_RULE_H_

#include <cmath>
#include <cstddef>

#include "optim/rule_code.h"

namespace oarlock::optim {

// FTRL-Proximal with per-coordinate learning rates (McMahan et al., "Ad click
// prediction: a view from the trenches", KDD 2013, algorithm 1), alpha being
// the learning rate. The paper computes a weight from two sums:
//
//   sigma = (sqrt(N + g * g) - sqrt(N)) / alpha
//   z += g - sigma * w
//   N += g * g
//   w = 0                                  if |z| <= l1, else
//   w = -(z - sign(z) * l1) / D,           D = (beta + sqrt(N)) / alpha + l2
//
// A weight that is not 0 says what its z is: z = -(w * D + sign(w) * l1). Put
// into the above, with D of the new N and t = w - g / D:
//
//   w != 0 and t has w's sign   w' = t
//   else                        z' = -(t * D + sign(w) * l1)   if w != 0
//                               z' = z + g                     if w = 0
//                               w' from z' as in the paper
//
// which is what this rule computes: the same weights, up to rounding. Here
// the weight leads and z is only what a weight at 0 remembers, so weights may
// change otherwise than by this rule:
//
// - A row begins with its initial values, as every row does, and with the z
//   that they say: as if earlier gradients had led there. They are 0 where the
//   paper's own results are wanted (the rows of model lr are).
// - A step with another alpha (warm-up, schedule) changes the length of that
//   step, not all that was learned before.
// - Bounds, and parameters that a worker gets from a server, need no care.
//
// beta belongs to the scale of gradients: 1 for a loss that is summed over
// examples, 1 / batch size for the mean.
//
// State: z[n] (0 beside a weight that is not 0), N[n]; all 0 at first.
struct FtrlRule {
  static constexpr size_t kOwn = 2;
  static constexpr size_t kShared = 0;
  static constexpr float kDefaultBeta = 1.0f;

  // At least 0.
  float learning_rate = 0;
  // More than 0.
  float beta = kDefaultBeta;
  float l1 = 0;
  float l2 = 0;

  static constexpr size_t StateSize(size_t n) { return 2 * n; }
  void InitState(float* state, size_t n) const {
    for (size_t i = 0; i < StateSize(n); ++i) state[i] = 0;
  }
  // Infinite where the learning rate is 0; then every step is 0.
  OARLOCK_RULE_CODE float PerRate() const { return 1.0f / learning_rate; }
  OARLOCK_RULE_CODE void UpdateAt(float per_rate, float g, float& w, float& z,
                                  float& sum) const {
    const float grown = sum + g * g;
    const float strength = (beta + std::sqrt(grown)) * per_rate + l2;
    const float rate = 1.0f / strength;
    const float old = w;
    const float moved = old - rate * g;
    const float crossed = -moved * strength - std::copysign(l1, old);
    // Between -l1 and l1 already, unless the weight was set to 0.
    const float size = std::fabs(z);
    const float kept = std::copysign(size < l1 ? size : l1, z);
    const float rested = kept + g;
    const float pull = old != 0 ? crossed : rested;
    const float away = (std::copysign(l1, pull) - pull) * rate;
    const float pulled = std::fabs(pull) <= l1 ? 0.0f : away;
    const float updated = moved * old > 0 ? moved : pulled;
    w = updated;
    z = updated != 0 ? 0.0f : pull;
    sum = grown;
  }
  OARLOCK_RULE_CODE void Update(float g, float& w, float& z, float& sum) const {
    UpdateAt(PerRate(), g, w, z, sum);
  }
  void Apply(float* __restrict w, float* __restrict state,
             const float* __restrict g, size_t n) const {
    float* __restrict z = state;
    float* __restrict sum = state + n;
    const float per_rate = PerRate();
    for (size_t i = 0; i < n; ++i) {
      UpdateAt(per_rate, g[i], w[i], z[i], sum[i]);
    }
  }
};

}  // namespace oarlock::optim

#endif  // OARLOCK_OPTIM_FTRL_RULE_H_
