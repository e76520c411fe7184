// What kernels.cu and rule_kernels.cu give to the rest.

#ifndef OARLOCK_NN_CUDA_KERNELS_GPU_LAUNCH_H_
#define OARLOCK_NN_CUDA_KERNELS_GPU_LAUNCH_H_

#include <cuda_runtime_api.h>

#include <cstddef>

namespace oarlock::nn::cuda {

enum class KernelId;

// Puts a kernel of kernels.h, a struct at `kernel` which is copied, into the
// stream of the current GPU. `blocks` is above 0.
cudaError_t LaunchOnGpu(KernelId id, const void* kernel, size_t blocks,
                        cudaStream_t stream);
// The same, of a kernel of rule_kernels.h.
cudaError_t LaunchRuleOnGpu(KernelId id, const void* kernel, size_t blocks,
                            cudaStream_t stream);

}  // namespace oarlock::nn::cuda

#endif  // OARLOCK_NN_CUDA_KERNELS_GPU_LAUNCH_H_
