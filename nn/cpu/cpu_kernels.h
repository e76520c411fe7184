// The operations of MathBackend except large products, vectorised with Highway
// for the instruction set found at run time. Contracts as in math_backend.h.

#ifndef OARLOCK_NN_CPU_CPU_KERNELS_H_
#define OARLOCK_NN_CPU_CPU_KERNELS_H_

#include <cstddef>
#include <cstdint>

#include "nn/math_backend.h"

namespace oarlock::nn::cpu_kernels {

// ---- Products c [m, n] = a b that read one large operand once ----

// The largest size that is narrow.
inline constexpr size_t kNarrow = 4;

// n is narrow, a is not transposed; `columns` [n, k] are the columns of b.
void NarrowInner(size_t m, size_t n, size_t k, Matrix a, const float* columns,
                 Write write, float* c, size_t c_stride);
// k is narrow; neither a nor b is transposed.
void NarrowOuter(size_t m, size_t n, size_t k, Matrix a, Matrix b, Write write,
                 float* c, size_t c_stride);
// n is narrow, a is transposed and b is not: the gradient of a weight. Uses
// sums [n, m] as memory.
void NarrowGradient(size_t m, size_t n, size_t k, Matrix a, Matrix b,
                    float* sums, Write write, float* c, size_t c_stride);

// ---- bfloat16: the upper half of a float's bits ----

// y [rows, cols] = x rounded to the nearest bfloat16, ties to even. The rows of
// x are x_stride apart. NaN stays NaN.
void RoundToBfloat16(size_t rows, size_t cols, const float* x, size_t x_stride,
                     uint16_t* y);
// As AddBiasBackward, but does not change dy and writes the gradient by the
// input, rounded, to `rounded`.
void AddBiasBackwardRounded(size_t rows, size_t cols, const float* y,
                            Activation activation, const float* dy, Write write,
                            float* dbias, uint16_t* rounded);

// ---- Operations of MathBackend ----

void AddBias(size_t rows, size_t cols, const float* bias, Activation activation,
             float* y);
void AddBiasBackward(size_t rows, size_t cols, const float* y,
                     Activation activation, float* dy, Write write,
                     float* dbias);
void Relu(size_t size, const float* x, float* y);
void ReluInPlace(size_t size, float* y);
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

}  // namespace oarlock::nn::cpu_kernels

#endif  // OARLOCK_NN_CPU_CPU_KERNELS_H_
