// The kernels of the math backend as a GPU runs them. Compiled by nvcc, alone;
// all else of the backend is C++ that drives them by their numbers.

#include "worker/nn/cuda/kernels.h"

#include <cuda_runtime_api.h>

#include "worker/nn/cuda/gpu_launch.h"
#include "worker/nn/cuda/launch_kernel.h"

namespace oarlock::cuda {

cudaError_t LaunchOnGpu(KernelId id, const void* kernel, size_t blocks,
                        cudaStream_t stream) {
  switch (id) {
#define OARLOCK_LAUNCH(name, type)              \
  case KernelId::name:                          \
    LaunchKernel<type>(kernel, blocks, stream); \
    break;
    OARLOCK_CUDA_KERNELS(OARLOCK_LAUNCH)
#undef OARLOCK_LAUNCH
    default:
      return LaunchRuleOnGpu(id, kernel, blocks, stream);
  }
  return cudaGetLastError();
}

}  // namespace oarlock::cuda
