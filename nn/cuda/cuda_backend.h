// The math backend on a device with memory of its own: products by cuBLAS,
// convolutions by cuDNN where it is there, everything else by the kernels of
// kernels.h. Results repeat bit for bit on one kind of GPU with one version of
// cuBLAS and of cuDNN: no sum is taken by atomics.

#ifndef OARLOCK_NN_CUDA_CUDA_BACKEND_H_
#define OARLOCK_NN_CUDA_CUDA_BACKEND_H_

#include <memory>

#include "nn/cuda/device.h"
#include "nn/math_backend.h"

namespace oarlock::nn::cuda {

struct CudaOptions {
  // kBfloat16: parameters, gradients and all arrays that the caller sees are
  // float32; a linear layer rounds its weight and its input once for all three
  // products.
  Numbers numbers = Numbers::kFloat32;
  // The caller's arrays are in the device's memory already: for benches of the
  // computation alone.
  bool inputs_on_device = false;
  // What repeats from step to step is launched as one (replaying_device.h).
  bool graphs = true;
};

std::unique_ptr<MathBackend> NewCudaBackend(std::unique_ptr<Device> device,
                                            const CudaOptions& options);

}  // namespace oarlock::nn::cuda

#endif  // OARLOCK_NN_CUDA_CUDA_BACKEND_H_
