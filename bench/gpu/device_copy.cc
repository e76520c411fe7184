#include "bench/gpu/device_copy.h"

#include <cuda_runtime_api.h>

#include <string>

#include "nn/cuda/device.h"

namespace oarlock::gpu_bench {
namespace {

void Check(cudaError_t status) {
  if (status == cudaSuccess) return;
  nn::cuda::DeviceFailed(std::string("measuring copies: ") +
                         cudaGetErrorString(status));
}

}  // namespace

double SecondsOfDeviceCopy(const void* from, size_t num_bytes, void* to) {
  constexpr int kCopies = 20;
  cudaStream_t stream = nullptr;
  cudaEvent_t begin = nullptr, end = nullptr;
  Check(cudaDeviceSynchronize());
  Check(cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking));
  Check(cudaEventCreate(&begin));
  Check(cudaEventCreate(&end));
  const auto copy = [&] {
    Check(
        cudaMemcpyAsync(to, from, num_bytes, cudaMemcpyDeviceToDevice, stream));
  };
  copy();
  Check(cudaEventRecord(begin, stream));
  for (int i = 0; i < kCopies; ++i) copy();
  Check(cudaEventRecord(end, stream));
  Check(cudaEventSynchronize(end));
  float milliseconds = 0;
  Check(cudaEventElapsedTime(&milliseconds, begin, end));
  Check(cudaEventDestroy(begin));
  Check(cudaEventDestroy(end));
  Check(cudaStreamDestroy(stream));
  return milliseconds / 1e3 / kCopies;
}

}  // namespace oarlock::gpu_bench
