// UpdateRule::Apply, compiled once per instruction set. The loops are those of
// the rules: the compiler makes vectors of them. Contraction to fused
// multiply-add is off for this file (BUILD), so every set gives the same bits.

#include <cmath>
#include <cstddef>

#include "optim/rules.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "optim/apply_rule.cc"
#include "hwy/foreach_target.h"
// Highway compiles what follows once per instruction set.
#include "hwy/highway.h"

HWY_BEFORE_NAMESPACE();
namespace oarlock::optim::apply_rule {
namespace HWY_NAMESPACE {

// Flattened: the loops must become part of a function of this set.
[[gnu::flatten]] HWY_ATTR void Apply(const AnyRule& rule, float* w,
                                     float* state, const float* g, size_t n) {
  rule.Apply(w, state, g, n);
}

}  // namespace HWY_NAMESPACE
}  // namespace oarlock::optim::apply_rule
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace oarlock::optim {
namespace apply_rule {
HWY_EXPORT(Apply);
}  // namespace apply_rule

void UpdateRule::Apply(uint64_t step, float* w, float* state, const float* g,
                       size_t n, float rate_factor) const {
  HWY_DYNAMIC_DISPATCH(apply_rule::Apply)
  (ForStep(rule_, step, rate_factor), w, state, g, n);
}

}  // namespace oarlock::optim
#endif  // HWY_ONCE
