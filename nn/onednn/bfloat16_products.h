// Products of bfloat16 matrices, summed in float32, by oneDNN's matmul
// primitives. A primitive is created once for each kind of product, kept, and
// given new addresses at each run. oneDNN's C++ interface throws for a product
// that it does not support. That breaks an invariant (see
// CpuMultipliesBfloat16) and ends the process.
//
// Thread safety: only one thread at a time may use an object.

#ifndef OARLOCK_NN_ONEDNN_BFLOAT16_PRODUCTS_H_
#define OARLOCK_NN_ONEDNN_BFLOAT16_PRODUCTS_H_

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>

#include "nn/math_backend.h"

namespace oarlock::nn {

// The upper half of the bits of a float.
using Bfloat16 = uint16_t;

// c = activation(a b + bias), or c += a b. Sizes are 1 or more.
struct Bfloat16Product {
  // As Matrix.
  struct Operand {
    const Bfloat16* data = nullptr;
    size_t stride = 0;
    bool transposed = false;
  };
  size_t m = 0;
  size_t n = 0;
  size_t k = 0;
  Operand a;  // [m, k]
  Operand b;  // [k, n]
  // [n] or null. With a bias or an activation the result overwrites.
  const float* bias = nullptr;
  Activation activation = Activation::kNone;
  Write write = Write::kOverwrite;
  float* c = nullptr;
  size_t c_stride = 0;
};

class Bfloat16Products {
 public:
  // `threads` threads, at least 1, compute each product.
  explicit Bfloat16Products(int threads);
  ~Bfloat16Products();

  // Allocates only for a new kind of product (sizes, strides, bias, write).
  void Run(const Bfloat16Product& product);

 private:
  struct State;
  const int threads_;
  const std::unique_ptr<State> state_;
};

// Whether this CPU has instructions to multiply bfloat16 (AVX512_BF16, AMX).
// Then oneDNN supports these products, and they are faster than products of
// float32.
bool CpuMultipliesBfloat16();

// The version of oneDNN in this process, such as "2.7.3".
std::string OnednnVersion();

}  // namespace oarlock::nn

#endif  // OARLOCK_NN_ONEDNN_BFLOAT16_PRODUCTS_H_
