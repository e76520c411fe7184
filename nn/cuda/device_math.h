// The common part of the two halves of the CUDA backend: the device, products,
// and the sums that take two kernels.

#ifndef OARLOCK_NN_CUDA_DEVICE_MATH_H_
#define OARLOCK_NN_CUDA_DEVICE_MATH_H_

#include <cstddef>
#include <cstdint>

#include "nn/cuda/device.h"
#include "nn/operation.h"

namespace oarlock::nn::cuda {

class DeviceMath {
 public:
  DeviceMath(Device* device, Numbers numbers)
      : device_(device),
        numbers_(numbers),
        partials_(device),
        rounded_a_(device),
        rounded_b_(device) {}

  Device& device() { return *device_; }
  Numbers numbers() const { return numbers_; }

  // out[c] = factor * the sum of term(r, c) over r < rows, overwritten or added
  // as `write` says.
  template <typename Term>
  void SumRows(size_t rows, size_t cols, const Term& term, double factor,
               Write write, float* out) {
    using Partials = ColumnPartials<Term>;
    const size_t chunks = Partials::Chunks(rows);
    float* const partials = partials_.Get<float>(chunks * cols);
    device_->Run(Partials{rows, cols, term, partials});
    device_->Run(
        ForEach<SumPartialsBody>{{cols, chunks, factor, write, partials, out}});
  }

  // The stride of rows of `cols` numbers rounded to bfloat16. Rows begin at
  // multiples of 16 bytes, for cuBLAS.
  static size_t RoundedStride(size_t cols) { return (cols + 7) / 8 * 8; }
  // Rounds x [rows, cols] to y [rows, RoundedStride(cols)].
  void Round(size_t rows, size_t cols, const float* x, size_t x_stride,
             uint16_t* y) {
    const size_t y_stride = RoundedStride(cols);
    device_->Run(
        ForEach<RoundBody>{{rows * y_stride, cols, x_stride, y_stride, x, y}});
  }

  // c [m, n] = activation(a [m, k] b [k, n] + bias), overwritten or added as
  // `write` says. All matrices are row-major and float32; k may be 0.
  struct RowMajor {
    size_t m, n, k;
    const float* a;
    size_t a_stride;
    bool a_transposed;
    const float* b;
    size_t b_stride;
    bool b_transposed;
    Write write;
    float* c;
    size_t c_stride;
    const float* bias = nullptr;
    Activation activation = Activation::kNone;
  };
  void Multiply(const RowMajor& args);

 private:
  Product::Operand Operand(const float* data, size_t rows, size_t cols,
                           size_t stride, bool transposed,
                           DeviceBuffer& rounded);

  Device* const device_;
  const Numbers numbers_;
  DeviceBuffer partials_;
  DeviceBuffer rounded_a_;
  DeviceBuffer rounded_b_;
};

}  // namespace oarlock::nn::cuda

#endif  // OARLOCK_NN_CUDA_DEVICE_MATH_H_
