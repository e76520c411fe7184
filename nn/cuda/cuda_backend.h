// The math backend on a device with memory of its own. Products are computed by
// cuBLAS, convolutions by cuDNN where it is available, everything else by the
// kernels of kernels.h. Results are the same bits on the same kind of GPU with
// the same versions of cuBLAS and cuDNN: no sum uses atomics.

#ifndef OARLOCK_NN_CUDA_CUDA_BACKEND_H_
#define OARLOCK_NN_CUDA_CUDA_BACKEND_H_

#include <memory>

#include "nn/cuda/device.h"
#include "nn/math_backend.h"

namespace oarlock::nn::cuda {

struct CudaOptions {
  // kBfloat16: parameters, gradients and all arrays of the caller are float32.
  // A linear layer rounds its weight and its input once for all three products.
  Numbers numbers = Numbers::kFloat32;
  // The caller's arrays are already in the device's memory: for benchmarks of
  // the computation alone.
  bool inputs_on_device = false;
  // Calls that repeat from step to step are launched as one graph
  // (replaying_device.h).
  bool graphs = true;
};

std::unique_ptr<MathBackend> NewCudaBackend(std::unique_ptr<Device> device,
                                            const CudaOptions& options);

}  // namespace oarlock::nn::cuda

#endif  // OARLOCK_NN_CUDA_CUDA_BACKEND_H_
