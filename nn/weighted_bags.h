// Bags of rows with weights, and pairs of rows in a bag. Few inputs have
// weights, and few models look at pairs, so these are plain loops in host
// memory, outside the backends.

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

// out[e] = the sum over the bags of example e of the inner products of all
// pairs of its rows, by Rendle's Lemma 3.1 (Factorization Machines, 2010): the
// sum over columns of ((sum of x)^2 - sum of x^2) / 2, where x is a row times
// the key's weight (null: 1), for a mean divided by the number of the bag's
// keys.
void SumPairsInBags(const RowBags& bags, const float* weights,
                    const float* rows, float* out);
// Adds the gradients by the rows.
void SumPairsInBagsBackward(const RowBags& bags, const float* weights,
                            const float* rows, const float* dout, float* drows);

}  // namespace oarlock::nn

#endif  // OARLOCK_NN_WEIGHTED_BAGS_H_
