// Products of bfloat16 matrices, summed in float32, by oneDNN's matmul
// primitives: made once for each kind of product, kept, and given new addresses
// at each run. oneDNN's C++ interface throws where it lacks a product: that
// breaks an invariant (see CpuMultipliesBfloat16) and ends the process.
//
// Thread safety: one thread at a time.

#ifndef OARLOCK_NN_ONEDNN_BFLOAT16_PRODUCTS_H_
#define OARLOCK_NN_ONEDNN_BFLOAT16_PRODUCTS_H_

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>

#include "nn/math_backend.h"

namespace oarlock::nn {

// The upper half of a float's bits.
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
  // Each product is computed by so many threads, at least 1.
  explicit Bfloat16Products(int threads);
  ~Bfloat16Products();

  // Allocates only for a kind of product (sizes, strides, what is added) that
  // is new.
  void Run(const Bfloat16Product& product);

 private:
  struct State;
  const int threads_;
  const std::unique_ptr<State> state_;
};

// Whether this CPU multiplies bfloat16 itself (AVX512_BF16, AMX), so that there
// are products, faster than those of float32.
bool CpuMultipliesBfloat16();

// Of the library that this process has, "2.7.3".
std::string OnednnVersion();

}  // namespace oarlock::nn

#endif  // OARLOCK_NN_ONEDNN_BFLOAT16_PRODUCTS_H_
