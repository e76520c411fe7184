#include "nn/cuda/device_math.h"

#include <utility>

namespace oarlock::nn::cuda {

Product::Operand DeviceMath::Operand(const float* data, size_t rows,
                                     size_t cols, size_t stride,
                                     bool transposed, DeviceBuffer& rounded) {
  if (numbers_ != Numbers::kBfloat16) return {data, stride, transposed};
  if (transposed) std::swap(rows, cols);
  const size_t rounded_stride = RoundedStride(cols);
  uint16_t* const to = rounded.Get<uint16_t>(rows * rounded_stride);
  Round(rows, cols, data, stride, to);
  return {to, rounded_stride, transposed};
}

void DeviceMath::Multiply(const RowMajor& args) {
  if (args.m == 0 || args.n == 0) return;
  if (args.k == 0) {
    // There is nothing to sum. The product has no bias: only layers have a
    // bias, and layers have inputs.
    if (args.write == Write::kAdd) return;
    const size_t rows = args.c_stride == args.n ? 1 : args.m;
    for (size_t row = 0; row < rows; ++row) {
      device_->Run(ForEach<FillBody>{
          {args.m / rows * args.n, 0, args.c + row * args.c_stride}});
    }
    return;
  }
  Product product =
      RowMajorProduct(numbers_, args.m, args.n, args.k,
                      Operand(args.a, args.m, args.k, args.a_stride,
                              args.a_transposed, rounded_a_),
                      Operand(args.b, args.k, args.n, args.b_stride,
                              args.b_transposed, rounded_b_),
                      args.c, args.c_stride);
  product.write = args.write;
  product.bias = args.bias;
  product.activation = args.activation;
  device_->Multiply(product);
}

}  // namespace oarlock::nn::cuda
