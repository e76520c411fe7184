// The kernels as a GPU runs them. Compiled by nvcc, alone; all else of the
// backend is C++ that drives them by their numbers.

#include "worker/nn/cuda/kernels.h"

#include <cuda_runtime_api.h>

#include "worker/nn/cuda/gpu_launch.h"

namespace oarlock::cuda {
namespace {

template <typename Kernel>
__global__ void __launch_bounds__(Kernel::kThreads) Run(Kernel kernel) {
  kernel(Block());
}

template <typename Kernel>
void Launch(const void* kernel, size_t blocks, cudaStream_t stream) {
  Run<<<static_cast<unsigned>(blocks), Kernel::kThreads, 0, stream>>>(
      *static_cast<const Kernel*>(kernel));
}

}  // namespace

cudaError_t LaunchOnGpu(KernelId id, const void* kernel, size_t blocks,
                        cudaStream_t stream) {
  switch (id) {
#define OARLOCK_LAUNCH(name, type) \
  case KernelId::name:             \
    Launch<type>(kernel, blocks, stream);         \
    break;
    OARLOCK_CUDA_KERNELS(OARLOCK_LAUNCH)
#undef OARLOCK_LAUNCH
  }
  return cudaGetLastError();
}

}  // namespace oarlock::cuda
