// A convolution, or one of its gradients, with arrays in the layout of cuDNN.
// Images are [images, height, width, channels] as everywhere. But a weight is
// [out, height, width, in], whereas in image_operations.h it is [height, width,
// in, out]. The first, as a matrix with `out` rows, is the transpose of the
// second, as a matrix with `out` columns. The caller computes bias and
// activation.

#ifndef OARLOCK_NN_CUDA_CONVOLUTION_PASS_H_
#define OARLOCK_NN_CUDA_CONVOLUTION_PASS_H_

#include <cstddef>

#include "nn/cuda/kernels/product.h"
#include "nn/image_operations.h"
#include "nn/operation.h"

namespace oarlock::nn::cuda {

struct ConvolutionPass {
  enum class Kind {
    kForward,         // y of x and weight
    kWeightGradient,  // dweight of x and dy
    kInputGradient,   // dx of weight and dy
  };
  Kind kind = Kind::kForward;
  // kFloat32 or kTf32: all arrays are of floats.
  Numbers numbers = Numbers::kFloat32;
  size_t images = 0;  // above 0
  ConvolutionShape shape;
  // Arrays that the kind does not read are null.
  const float* x = nullptr;       // [images, image, in_channels]
  const float* weight = nullptr;  // [out_channels, kernel, in_channels]
  const float* dy = nullptr;      // [images, positions, out_channels]
  // y, dweight or dx; must not overlap the arrays that are read.
  float* result = nullptr;
  Write write = Write::kOverwrite;
  // Memory of the size that Device::ConvolutionWorkspace returned; it is
  // overwritten.
  void* workspace = nullptr;
  size_t workspace_bytes = 0;
};

}  // namespace oarlock::nn::cuda

#endif  // OARLOCK_NN_CUDA_CONVOLUTION_PASS_H_
