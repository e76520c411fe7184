// A device's convolution in loops, from its definition: what CudaImages asks a
// device for is tested without one.

#ifndef OARLOCK_TESTS_NN_CUDA_EMULATED_CONVOLUTION_H_
#define OARLOCK_TESTS_NN_CUDA_EMULATED_CONVOLUTION_H_

#include <cstddef>

#include "nn/cuda/convolution_pass.h"

namespace oarlock::nn::cuda {

// Floats of a pass's arrays.
struct SizesOfPass {
  explicit SizesOfPass(const ConvolutionPass& pass);
  size_t x, weight, y, result;
};

// Some, and not the same for all passes.
size_t EmulatedWorkspaceBytes(const ConvolutionPass& pass);

void EmulateConvolution(const ConvolutionPass& pass);

}  // namespace oarlock::nn::cuda

#endif  // OARLOCK_TESTS_NN_CUDA_EMULATED_CONVOLUTION_H_
