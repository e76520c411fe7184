// What rules with one accumulator for many weights need.

#ifndef OARLOCK_OPTIM_MEAN_OF_SQUARES_H_
#define OARLOCK_OPTIM_MEAN_OF_SQUARES_H_

#include <cstddef>

namespace oarlock::optim {

// The mean of g[i]^2 over n >= 1 values. Eight partial sums, value i in number
// i modulo 8, then pairwise: an order that vectors of every width can keep, so
// that the result has the same bits on all of them.
inline float MeanOfSquares(const float* __restrict g, size_t n) {
  constexpr size_t kParts = 8;
  float parts[kParts] = {};
  size_t i = 0;
  for (; i + kParts <= n; i += kParts) {
    for (size_t p = 0; p < kParts; ++p) parts[p] += g[i + p] * g[i + p];
  }
  for (size_t p = 0; i + p < n; ++p) parts[p] += g[i + p] * g[i + p];
  for (size_t half = kParts / 2; half > 0; half /= 2) {
    for (size_t p = 0; p < half; ++p) parts[p] += parts[p + half];
  }
  return parts[0] / static_cast<float>(n);
}

}  // namespace oarlock::optim

#endif  // OARLOCK_OPTIM_MEAN_OF_SQUARES_H_
