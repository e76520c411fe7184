// A product by a plain loop: for products without an algorithm of cuBLAS, and
// for the emulated device.

#ifndef OARLOCK_NN_CUDA_KERNELS_PRODUCT_KERNELS_H_
#define OARLOCK_NN_CUDA_KERNELS_PRODUCT_KERNELS_H_

#include <cstddef>
#include <cstdint>

#include "nn/cuda/kernels/device_code.h"
#include "nn/cuda/kernels/product.h"

namespace oarlock::nn::cuda {
inline namespace OARLOCK_KERNEL_SIDE {

// Element (i, j), rounded as the multiplier rounds it.
OARLOCK_DEVICE inline float OperandAt(Numbers numbers,
                                      const Product::Operand& matrix, size_t i,
                                      size_t j) {
  const size_t at =
      matrix.transposed ? i * matrix.stride + j : j * matrix.stride + i;
  union {
    uint32_t bits;
    float number;
  } x;
  if (numbers == Numbers::kBfloat16) {
    x.bits = uint32_t{static_cast<const uint16_t*>(matrix.data)[at]} << 16;
    return x.number;
  }
  x.number = static_cast<const float*>(matrix.data)[at];
  const bool is_finite = x.number - x.number == 0;
  if (numbers == Numbers::kTf32 && is_finite) {
    x.bits = (x.bits + 0xfff + (x.bits >> 13 & 1)) & ~uint32_t{0x1fff};
  }
  return x.number;
}

// A thread for each number of c; count = m * n.
struct PlainProductBody {
  size_t count;
  Product product;
  OARLOCK_DEVICE void operator()(size_t at) const {
    const Product& p = product;
    const size_t i = at % p.m, j = at / p.m;
    float sum = 0;
    for (size_t l = 0; l < p.k; ++l) {
      sum += OperandAt(p.numbers, p.a, i, l) * OperandAt(p.numbers, p.b, l, j);
    }
    if (p.bias != nullptr) sum += p.bias[i];
    Put(p.write, Activate(p.activation, sum), &p.c[j * p.c_stride + i]);
  }
};

}  // namespace OARLOCK_KERNEL_SIDE
}  // namespace oarlock::nn::cuda

#endif  // OARLOCK_NN_CUDA_KERNELS_PRODUCT_KERNELS_H_
