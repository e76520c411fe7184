#include "tests/nn/cuda/emulated_convolution.h"

#include <vector>

#include "base/check.h"
#include "nn/cuda/kernels/device_code.h"
#include "nn/cuda/kernels/product_kernels.h"

namespace oarlock::nn::cuda {

SizesOfPass::SizesOfPass(const ConvolutionPass& pass)
    : x(pass.images * pass.shape.input_size()),
      weight(pass.shape.weight_size()),
      y(pass.images * pass.shape.output_size()) {
  switch (pass.kind) {
    case ConvolutionPass::Kind::kForward:
      result = y;
      return;
    case ConvolutionPass::Kind::kWeightGradient:
      result = weight;
      return;
    case ConvolutionPass::Kind::kInputGradient:
      break;
  }
  result = x;
}

size_t EmulatedWorkspaceBytes(const ConvolutionPass& pass) {
  return sizeof(float) * SizesOfPass(pass).y + static_cast<size_t>(pass.kind);
}

void EmulateConvolution(const ConvolutionPass& pass) {
  using Kind = ConvolutionPass::Kind;
  // Each kind reads two arrays and is not given a third.
  OARLOCK_CHECK((pass.x == nullptr) == (pass.kind == Kind::kInputGradient));
  OARLOCK_CHECK((pass.weight == nullptr) ==
                (pass.kind == Kind::kWeightGradient));
  OARLOCK_CHECK((pass.dy == nullptr) == (pass.kind == Kind::kForward));
  const auto number = [&](const float* array, size_t i) -> double {
    return OperandAt(pass.numbers, {array}, i, 0);
  };
  const ConvolutionShape& s = pass.shape;
  const Window& w = s.window;
  const Extent out = NumPositions(s.image, w);
  std::vector<double> sums(SizesOfPass(pass).result);
  // Of a pixel x, a position y and an element `weight` of the window that lies
  // on the pixel there, the first numbers of each.
  const auto add = [&](size_t x, size_t weight, size_t y) {
    for (size_t c = 0; c < s.in_channels; ++c) {
      switch (pass.kind) {
        case Kind::kForward:
          sums[y] += number(pass.x, x + c) * number(pass.weight, weight + c);
          break;
        case Kind::kWeightGradient:
          sums[weight + c] += number(pass.x, x + c) * number(pass.dy, y);
          break;
        case Kind::kInputGradient:
          sums[x + c] += number(pass.weight, weight + c) * number(pass.dy, y);
          break;
      }
    }
  };
  for (size_t position = 0; position < pass.images * out.area(); ++position) {
    const size_t image = position / out.area();
    const size_t i = position / out.width % out.height;
    const size_t j = position % out.width;
    for (size_t element = 0; element < w.kernel.area(); ++element) {
      const size_t k = element / w.kernel.width, l = element % w.kernel.width;
      // Outside the image, on either side, they are too large.
      const size_t row = i * w.stride.height + k - w.padding.height;
      const size_t column = j * w.stride.width + l - w.padding.width;
      if (row >= s.image.height || column >= s.image.width) continue;
      const size_t pixel =
          (image * s.image.height + row) * s.image.width + column;
      for (size_t o = 0; o < s.out_channels; ++o) {
        add(pixel * s.in_channels,
            (o * w.kernel.area() + element) * s.in_channels,
            position * s.out_channels + o);
      }
    }
  }
  for (size_t i = 0; i < sums.size(); ++i) {
    Put(pass.write, static_cast<float>(sums[i]), &pass.result[i]);
  }
}

}  // namespace oarlock::nn::cuda
