// A product of matrices in the layout of cuBLAS: columns are contiguous. A
// row-major matrix [rows, cols] whose rows are `stride` apart is, in this
// layout, its transpose with leading dimension `stride`. So the row-major
// product C = A B is C^T = B^T A^T here, and no data is moved
// (RowMajorProduct).

#ifndef OARLOCK_NN_CUDA_KERNELS_PRODUCT_H_
#define OARLOCK_NN_CUDA_KERNELS_PRODUCT_H_

#include <cstddef>
#include <cstdint>

#include "nn/operation.h"

namespace oarlock::nn::cuda {

// The numbers that are multiplied. Sums and c are always float32.
enum class Numbers {
  kFloat32,
  // float32 in memory; the multiplier rounds each number to 10 bits of
  // mantissa.
  kTf32,
  // In memory, the upper halves of floats.
  kBfloat16,
};

// c [m, n] = activation(a b + bias), or c += a b; a [m, k], b [k, n]. All sizes
// are above 0. Element (i, j) of a matrix is data[j * stride + i], or data[i *
// stride + j] when `transposed`.
struct Product {
  struct Operand {
    const void* data = nullptr;  // float or uint16_t, as `numbers` says
    size_t stride = 0;
    bool transposed = false;
  };
  Numbers numbers = Numbers::kFloat32;
  size_t m = 0;
  size_t n = 0;
  size_t k = 0;
  Operand a;
  Operand b;
  // [m] or null. With a bias the result overwrites c.
  const float* bias = nullptr;
  Activation activation = Activation::kNone;
  Write write = Write::kOverwrite;
  float* c = nullptr;
  size_t c_stride = 0;
};

// The same for row-major matrices: c [m, n] = a [m, k] b [k, n]; bias, if any,
// is [n].
inline Product RowMajorProduct(Numbers numbers, size_t m, size_t n, size_t k,
                               Product::Operand a, Product::Operand b, float* c,
                               size_t c_stride) {
  Product product;
  product.numbers = numbers;
  product.m = n;
  product.n = m;
  product.k = k;
  product.a = b;
  product.b = a;
  product.c = c;
  product.c_stride = c_stride;
  return product;
}

}  // namespace oarlock::nn::cuda

#endif  // OARLOCK_NN_CUDA_KERNELS_PRODUCT_H_
