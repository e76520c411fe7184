// The kernels of the math backend for a GPU. Only this file of the backend
// needs nvcc; the other files are C++ that starts kernels by their numbers.

#include <cuda_runtime_api.h>

#include "nn/cuda/kernels/gpu_launch.h"
#include "nn/cuda/kernels/kernels.h"
#include "nn/cuda/kernels/launch_kernel.h"

namespace oarlock::nn::cuda {

cudaError_t LaunchOnGpu(KernelId id, const void* kernel, size_t blocks,
                        cudaStream_t stream) {
  switch (id) {
    OARLOCK_CUDA_KERNELS(OARLOCK_LAUNCH_CASE)
    default:
      return LaunchRuleOnGpu(id, kernel, blocks, stream);
  }
}

}  // namespace oarlock::nn::cuda
