// The kernels of optimizers for a GPU. They have their own file because it is
// compiled with -fmad=false: see rule_kernels.h.

#include <cuda_runtime_api.h>

#include "nn/cuda/kernels/gpu_launch.h"
#include "nn/cuda/kernels/kernels.h"
#include "nn/cuda/kernels/launch_kernel.h"
#include "nn/cuda/kernels/rule_kernels.h"

namespace oarlock::nn::cuda {

cudaError_t LaunchRuleOnGpu(KernelId id, const void* kernel, size_t blocks,
                            cudaStream_t stream) {
  switch (id) {
    OARLOCK_CUDA_RULE_KERNELS(OARLOCK_LAUNCH_CASE)
    default:
      return cudaErrorInvalidValue;
  }
}

}  // namespace oarlock::nn::cuda
