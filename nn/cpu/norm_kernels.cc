#include "nn/cpu/norm_kernels.h"

#include <cstddef>

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "nn/cpu/norm_kernels.cc"
#include "hwy/foreach_target.h"
// Highway compiles the following code once per instruction set.
#include "hwy/highway.h"
#include "nn/cpu/lanes-inl.h"

HWY_BEFORE_NAMESPACE();
namespace oarlock::nn::norm_kernels {
namespace HWY_NAMESPACE {
namespace {

namespace hn = hwy::HWY_NAMESPACE;
using oarlock::nn::HWY_NAMESPACE::ForLanes;
using oarlock::nn::HWY_NAMESPACE::Put;

void LearnNorm(size_t rows, size_t cols, float decay,
               const float* HWY_RESTRICT x, bool from_room,
               float* HWY_RESTRICT room, const NormSums& sums) {
  const float share = 1 / static_cast<float>(rows);
  ForLanes(cols, [&](auto d, size_t c) HWY_ATTR {
    auto sum = hn::Zero(d);
    for (size_t r = 0; r < rows; ++r) {
      sum = hn::Add(sum, hn::LoadU(d, x + r * cols + c));
    }
    if (!from_room) hn::StoreU(hn::Mul(sum, hn::Set(d, share)), d, room + c);
    const auto mean = hn::LoadU(d, room + c);
    auto squares = hn::Zero(d);
    for (size_t r = 0; r < rows; ++r) {
      const auto distance = hn::Sub(hn::LoadU(d, x + r * cols + c), mean);
      squares = hn::MulAdd(distance, distance, squares);
    }
    const auto keep = hn::Set(d, decay);
    hn::StoreU(hn::MulAdd(hn::LoadU(d, sums.sum + c), keep, sum), d,
               sums.sum + c);
    hn::StoreU(hn::MulAdd(hn::LoadU(d, sums.squares + c), keep, squares), d,
               sums.squares + c);
  });
  *sums.count = *sums.count * decay + static_cast<float>(rows);
}

void Standardize(size_t rows, size_t cols, float epsilon,
                 const float* HWY_RESTRICT mean,
                 const float* HWY_RESTRICT variance,
                 const float* HWY_RESTRICT x, Write write,
                 float* HWY_RESTRICT y) {
  const bool add = write == Write::kAdd;
  for (size_t r = 0; r < rows; ++r) {
    ForLanes(cols, [&](auto d, size_t c) HWY_ATTR {
      auto value = hn::LoadU(d, x + r * cols + c);
      if (mean != nullptr) value = hn::Sub(value, hn::LoadU(d, mean + c));
      const auto deviation =
          hn::Sqrt(hn::Add(hn::LoadU(d, variance + c), hn::Set(d, epsilon)));
      Put(d, add, hn::Div(value, deviation), y + r * cols + c);
    });
  }
}

}  // namespace
}  // namespace HWY_NAMESPACE
}  // namespace oarlock::nn::norm_kernels
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace oarlock::nn::norm_kernels {

HWY_EXPORT(LearnNorm);
HWY_EXPORT(Standardize);

void LearnNorm(size_t rows, size_t cols, float decay, const float* x,
               bool from_room, float* room, const NormSums& sums) {
  HWY_DYNAMIC_DISPATCH(LearnNorm)(rows, cols, decay, x, from_room, room, sums);
}
void Standardize(size_t rows, size_t cols, float epsilon, const float* mean,
                 const float* variance, const float* x, Write write, float* y) {
  HWY_DYNAMIC_DISPATCH(Standardize)
  (rows, cols, epsilon, mean, variance, x, write, y);
}

}  // namespace oarlock::nn::norm_kernels
#endif  // HWY_ONCE
