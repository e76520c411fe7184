// Starts a kernel of kernels.h on a GPU. Only nvcc can compile this file.

#ifndef OARLOCK_NN_CUDA_KERNELS_LAUNCH_KERNEL_H_
#define OARLOCK_NN_CUDA_KERNELS_LAUNCH_KERNEL_H_

#include <cstddef>

#include "nn/cuda/kernels/device_code.h"
#include "nn/cuda/kernels/gpu_launch.h"

namespace oarlock::nn::cuda {

template <typename Kernel>
__global__ void __launch_bounds__(Kernel::kThreads) RunKernel(Kernel kernel) {
  kernel(Block());
}

// Starts the kernel whose struct is at `kernel`.
template <typename Kernel>
void LaunchKernel(const void* kernel, size_t blocks, cudaStream_t stream) {
  RunKernel<<<static_cast<unsigned>(blocks), Kernel::kThreads, 0, stream>>>(
      *static_cast<const Kernel*>(kernel));
}

}  // namespace oarlock::nn::cuda

// A case of a switch over a KernelId, in a function with the arguments of
// LaunchOnGpu.
#define OARLOCK_LAUNCH_CASE(name, type)         \
  case KernelId::name:                          \
    LaunchKernel<type>(kernel, blocks, stream); \
    return cudaGetLastError();

#endif  // OARLOCK_NN_CUDA_KERNELS_LAUNCH_KERNEL_H_
