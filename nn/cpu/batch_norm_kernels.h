// Batch norm, vectorised with Highway for the instruction set found at run
// time. Contracts as in image_operations.h.
//
// Each operation reads its large arrays twice: for sums over the rows, and to
// apply what they give, a multiplication and an addition per float. Sums are
// taken in single precision over blocks of rows, in double over the blocks of a
// part of the rows, and over the parts: whatever the number of threads.

#ifndef OARLOCK_NN_CPU_BATCH_NORM_KERNELS_H_
#define OARLOCK_NN_CPU_BATCH_NORM_KERNELS_H_

#include <cstddef>

#include "nn/image_operations.h"

namespace oarlock::nn::batch_norm_kernels {

// The parts of the rows that may be summed at the same time.
inline constexpr size_t kParts = 16;

// Room for intermediate values; what is in it between calls does not matter.
struct Room {
  double* sums = nullptr;    // [kParts, 2, channels]
  float* parts = nullptr;    // [kParts, 2, channels]
  float* columns = nullptr;  // [4, channels]
  int threads = 1;
};

// At least one row.
void Training(const BatchNormArgs& args, Room room, float* y);
void Inference(const BatchNormArgs& args, Room room, float* y);
// At least one row.
void Backward(const BatchNormArgs& args, const float* y,
              const BatchNormGradients& gradients, Room room);

}  // namespace oarlock::nn::batch_norm_kernels

#endif  // OARLOCK_NN_CPU_BATCH_NORM_KERNELS_H_
