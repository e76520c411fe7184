// A convolution, or a gradient of one, as cuDNN takes it. Images are [images,
// height, width, channels] as everywhere, but a weight is [out, height, width,
// in], that of image_operations.h [height, width, in, out]: read as matrices of
// `out` columns and of `out` rows they are each other's transpose. Bias and
// activation are the caller's.

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
  // kFloat32 or kTf32: everything in memory is a float.
  Numbers numbers = Numbers::kFloat32;
  size_t images = 0;  // above 0
  ConvolutionShape shape;
  // Null is what the kind does not read.
  const float* x = nullptr;       // [images, image, in_channels]
  const float* weight = nullptr;  // [out_channels, kernel, in_channels]
  const float* dy = nullptr;      // [images, positions, out_channels]
  // y, dweight or dx, which overlaps nothing that is read.
  float* result = nullptr;
  Write write = Write::kOverwrite;
  // What Device::ConvolutionWorkspace has asked for; its bytes are lost.
  void* workspace = nullptr;
  size_t workspace_bytes = 0;
};

}  // namespace oarlock::nn::cuda

#endif  // OARLOCK_NN_CUDA_CONVOLUTION_PASS_H_
