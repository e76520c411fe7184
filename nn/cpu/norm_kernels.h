// Norms by sums, vectorised with Highway for the instruction set found at run
// time. Contracts as in interaction_operations.h; `room` is memory that a call
// may use.

#ifndef OARLOCK_NN_CPU_NORM_KERNELS_H_
#define OARLOCK_NN_CPU_NORM_KERNELS_H_

#include <cstddef>

#include "nn/interaction_operations.h"

namespace oarlock::nn::norm_kernels {

// from_room: room [cols] holds the means from which distances are computed.
// Otherwise the means of x are first written there.
void LearnNorm(size_t rows, size_t cols, float decay, const float* x,
               bool from_room, float* room, const NormSums& sums);
void Standardize(size_t rows, size_t cols, float epsilon, const float* mean,
                 const float* variance, const float* x, Write write, float* y);

}  // namespace oarlock::nn::norm_kernels

#endif  // OARLOCK_NN_CPU_NORM_KERNELS_H_
