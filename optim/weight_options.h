// Regularisation and bounds, which any rule can have around it.

#ifndef OARLOCK_OPTIM_WEIGHT_OPTIONS_H_
#define OARLOCK_OPTIM_WEIGHT_OPTIONS_H_

#include <cmath>
#include <cstddef>
#include <limits>

#include "optim/rule_code.h"

namespace oarlock::optim {

// Around an update of w by g:
//
//   g' = g + l2 * w + l1 * sign(w)         before it, and
//   w = min(max(w, lower), upper)          after it
//
// so that l1 * |w| and l2 / 2 * w^2 are as if added to the loss (PaddlePaddle's
// L1Decay and L2Decay; its parameter server refuses them for sparse rows). As a
// sparse row is updated only when a gradient comes, it is also regularised
// only then. A gradient step does not end at 0 exactly: for sparse models there
// is ftrl, whose l1 does.
//
// Initial values are not bounded before the first update. A NaN stays one.
struct WeightOptions {
  static constexpr float kInfinity = std::numeric_limits<float>::infinity();

  float l1 = 0;
  float l2 = 0;
  float lower = -kInfinity;
  float upper = kInfinity;

  bool Regularise() const { return l1 != 0 || l2 != 0; }
  bool Bound() const { return lower != -kInfinity || upper != kInfinity; }
  bool any() const { return Regularise() || Bound(); }

  // g'.
  OARLOCK_RULE_CODE float Regularised(float w, float g) const {
    const float sign = w == 0 ? 0.0f : std::copysign(1.0f, w);
    return g + (l2 * w + l1 * sign);
  }
  OARLOCK_RULE_CODE float Bounded(float w) const {
    return w < lower ? lower : (w > upper ? upper : w);
  }

  // Writes g'[n] to `regularised`.
  void AddRegularisation(const float* __restrict w, const float* __restrict g,
                         float* __restrict regularised, size_t n) const {
    for (size_t i = 0; i < n; ++i) regularised[i] = Regularised(w[i], g[i]);
  }
  void ApplyBounds(float* w, size_t n) const {
    for (size_t i = 0; i < n; ++i) w[i] = Bounded(w[i]);
  }
};

}  // namespace oarlock::optim

#endif  // OARLOCK_OPTIM_WEIGHT_OPTIONS_H_
