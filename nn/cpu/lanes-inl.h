// Loops over vectors, for source files that Highway compiles once per
// instruction set. Include this file after hwy/highway.h.

#if defined(OARLOCK_NN_CPU_LANES_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef OARLOCK_NN_CPU_LANES_INL_H_
#undef OARLOCK_NN_CPU_LANES_INL_H_
#else
#define OARLOCK_NN_CPU_LANES_INL_H_
#endif

#include <cstddef>

#include "hwy/highway.h"

HWY_BEFORE_NAMESPACE();
namespace oarlock::nn::HWY_NAMESPACE {

namespace hn = hwy::HWY_NAMESPACE;

// Calls visit(d, i) so that the lanes of all calls are 0 .. size - 1, each
// once: full vectors, then fours, then ones. Rows of an embedding are short, so
// the speed of the remainder matters.
template <class Visit>
HWY_INLINE void ForLanes(size_t size, Visit visit) {
  const hn::ScalableTag<float> full;
  const hn::CappedTag<float, 4> four;
  const hn::CappedTag<float, 1> one;
  size_t i = 0;
  for (; i + hn::Lanes(full) <= size; i += hn::Lanes(full)) visit(full, i);
  for (; i + hn::Lanes(four) <= size; i += hn::Lanes(four)) visit(four, i);
  for (; i < size; ++i) visit(one, i);
}

template <class D>
HWY_INLINE void Put(D d, bool add, hn::Vec<D> value, float* to) {
  if (add) value = hn::Add(hn::LoadU(d, to), value);
  hn::StoreU(value, d, to);
}

// ReLU. NaN stays NaN, which Max would not do.
template <class D>
HWY_INLINE hn::Vec<D> Rectified(D d, hn::Vec<D> x) {
  return hn::IfThenZeroElse(hn::Lt(x, hn::Zero(d)), x);
}

// The gradient `dy` behind a ReLU whose output was y. Where y is NaN it passes,
// so that NaN does not become a gradient of zero.
template <class D>
HWY_INLINE hn::Vec<D> RectifiedGradient(D d, hn::Vec<D> y, hn::Vec<D> dy) {
  return hn::IfThenZeroElse(hn::Le(y, hn::Zero(d)), dy);
}

}  // namespace oarlock::nn::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#endif  // OARLOCK_NN_CPU_LANES_INL_H_
