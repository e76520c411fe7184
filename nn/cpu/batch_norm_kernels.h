// Batch norm, vectorised with Highway for the instruction set found at run
// time. Contracts as in image_operations.h.
//
// Each operation reads its large arrays twice: first for sums over the rows,
// then to apply the results with a multiplication and an addition per float.
// Sums are in single precision over blocks of rows. They are in double
// precision over the blocks of a part of the rows, and over the parts. So they
// do not depend on the number of threads.

#ifndef OARLOCK_NN_CPU_BATCH_NORM_KERNELS_H_
#define OARLOCK_NN_CPU_BATCH_NORM_KERNELS_H_

#include <cstddef>

#include "nn/image_operations.h"

namespace oarlock::nn::batch_norm_kernels {

// Number of parts of the rows that may be summed at the same time.
inline constexpr size_t kParts = 16;

// Memory for intermediate values; its contents between calls do not matter.
struct Room {
  double* sums = nullptr;    // [kParts, 2, channels]
  float* parts = nullptr;    // [kParts, 2, channels]
  float* columns = nullptr;  // [4, channels]
  int threads = 1;
};

// REQUIRES: at least one row.
void Training(const BatchNormArgs& args, Room room, float* y);
void Inference(const BatchNormArgs& args, Room room, float* y);
// REQUIRES: at least one row.
void Backward(const BatchNormArgs& args, const float* y,
              const BatchNormGradients& gradients, Room room);

}  // namespace oarlock::nn::batch_norm_kernels

#endif  // OARLOCK_NN_CPU_BATCH_NORM_KERNELS_H_
