// The operations of MathBackend that are no products, vectorised with Highway
// for the instruction set found at run time. Contracts as in math_backend.h.

#ifndef OARLOCK_WORKER_NN_CPU_KERNELS_H_
#define OARLOCK_WORKER_NN_CPU_KERNELS_H_

#include <cstddef>

#include "worker/nn/math_backend.h"

namespace oarlock::cpu_kernels {

void AddBias(size_t rows, size_t cols, const float* bias, Activation activation,
             float* y);
void AddBiasBackward(size_t rows, size_t cols, const float* y,
                     Activation activation, float* dy, Write write,
                     float* dbias);
void Relu(size_t size, const float* x, float* y);
void ReluBackward(size_t size, const float* y, const float* dy, Write write,
                  float* dx);
void CopyColumns(size_t rows, size_t cols, const float* x, size_t x_stride,
                 Write write, float* y, size_t y_stride);
void SumColumns(size_t rows, size_t cols, const float* x, float* y);
void SumColumnsBackward(size_t rows, size_t cols, const float* dy, Write write,
                        float* dx);
void SumBags(const RowBags& bags, const float* rows, float* out);
void SumBagsBackward(const RowBags& bags, const float* dout, float* drows);
void FmSecondOrder(const FmShape& shape, const float* v, float* sums, float* y);
void FmSecondOrderBackward(const FmShape& shape, const float* v,
                           const float* sums, const float* dy, Write write,
                           float* dv);

}  // namespace oarlock::cpu_kernels

#endif  // OARLOCK_WORKER_NN_CPU_KERNELS_H_
