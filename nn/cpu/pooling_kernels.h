// Pooling and the scaling of bytes, vectorised with Highway for the
// instruction set found at run time. Contracts as in image_operations.h.
//
// In the backward operations, each pixel collects from the positions that cover
// it. So every float of the gradient is written once, and nothing has to be
// cleared first.

#ifndef OARLOCK_NN_CPU_POOLING_KERNELS_H_
#define OARLOCK_NN_CPU_POOLING_KERNELS_H_

#include <cstddef>
#include <cstdint>

#include "nn/image_operations.h"

namespace oarlock::nn::pooling_kernels {

void MaxPool(const PoolingShape& shape, Activation activation, const float* x,
             float* y, uint8_t* chosen);
void MaxPoolBackward(const PoolingShape& shape, const float* dy,
                     const uint8_t* chosen, Write write, float* dx);
void AveragePool(const PoolingShape& shape, const float* x, float* y);
void AveragePoolBackward(const PoolingShape& shape, const float* dy,
                         Write write, float* dx);
void ScaleBytes(size_t pixels, size_t channels, const uint8_t* bytes,
                const ByteScale& scale, float* y);

}  // namespace oarlock::nn::pooling_kernels

#endif  // OARLOCK_NN_CPU_POOLING_KERNELS_H_
