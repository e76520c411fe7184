// Bags of rows with weights. Few inputs have weights, so these are plain loops
// in host memory, outside the backends.

#ifndef OARLOCK_NN_WEIGHTED_BAGS_H_
#define OARLOCK_NN_WEIGHTED_BAGS_H_

#include "nn/math_backend.h"

namespace oarlock::nn {

// out[bag] = the sum of weights[k] times the row of key k, over the bag's keys
// in their order; 0 for an empty bag. `weights` has one weight for each key.
void SumWeightedBags(const RowBags& bags, const float* weights,
                     const float* rows, float* out);
// Adds, for each key k, weights[k] times the gradient by its bag to the
// gradient of its row.
void SumWeightedBagsBackward(const RowBags& bags, const float* weights,
                             const float* dout, float* drows);

}  // namespace oarlock::nn

#endif  // OARLOCK_NN_WEIGHTED_BAGS_H_
