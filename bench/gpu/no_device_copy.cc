#include "bench/gpu/device_copy.h"
#include "nn/cuda/device.h"

namespace oarlock::gpu_bench {

double SecondsOfDeviceCopy(const void*, size_t, void*) {
  nn::cuda::DeviceFailed("this program was built without CUDA");
}

}  // namespace oarlock::gpu_bench
