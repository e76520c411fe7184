// The functions of kernels.cu and rule_kernels.cu for the other files.

#ifndef OARLOCK_NN_CUDA_KERNELS_GPU_LAUNCH_H_
#define OARLOCK_NN_CUDA_KERNELS_GPU_LAUNCH_H_

#include <cuda_runtime_api.h>

#include <cstddef>

namespace oarlock::nn::cuda {

enum class KernelId;

// Queues a kernel of kernels.h in `stream` of the current GPU. The struct at
// `kernel` is copied. REQUIRES: blocks > 0.
cudaError_t LaunchOnGpu(KernelId id, const void* kernel, size_t blocks,
                        cudaStream_t stream);
// The same for a kernel of rule_kernels.h.
cudaError_t LaunchRuleOnGpu(KernelId id, const void* kernel, size_t blocks,
                            cudaStream_t stream);

}  // namespace oarlock::nn::cuda

#endif  // OARLOCK_NN_CUDA_KERNELS_GPU_LAUNCH_H_
