// The kernels of optimizers as a GPU runs them. A file of its own, since it is
// compiled with -fmad=false: see rule_kernels.h.

#include "worker/nn/cuda/rule_kernels.h"

#include <cuda_runtime_api.h>

#include "worker/nn/cuda/gpu_launch.h"
#include "worker/nn/cuda/kernels.h"
#include "worker/nn/cuda/launch_kernel.h"

namespace oarlock::cuda {

cudaError_t LaunchRuleOnGpu(KernelId id, const void* kernel, size_t blocks,
                            cudaStream_t stream) {
  switch (id) {
#define OARLOCK_LAUNCH(name, type)              \
  case KernelId::name:                          \
    LaunchKernel<type>(kernel, blocks, stream); \
    break;
    OARLOCK_CUDA_RULE_KERNELS(OARLOCK_LAUNCH)
#undef OARLOCK_LAUNCH
    default:
      return cudaErrorInvalidValue;
  }
  return cudaGetLastError();
}

}  // namespace oarlock::cuda
