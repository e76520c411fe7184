#include "worker/nn/cuda/gpu_memory.h"

#include <algorithm>
#include <bit>
#include <utility>

#include "absl/strings/str_cat.h"
#include "worker/nn/cuda/capture_lock.h"
#include "worker/nn/cuda/device.h"

namespace oarlock::cuda {
namespace {

constexpr size_t kLeastBufferBytes = size_t{64} << 10;

}  // namespace

void CheckGpu(cudaError_t status, const std::string& name, const char* what) {
  if (status == cudaSuccess) return;
  DeviceFailed(
      absl::StrCat(name, ": ", what, ": ", cudaGetErrorString(status)));
}

PinnedPool::PinnedPool(int gpu, std::string device_name)
    : gpu_(gpu), device_name_(std::move(device_name)) {}

PinnedPool::~PinnedPool() {
  const CaptureLock lock(gpu_);
  for (const std::unique_ptr<Buffer>& buffer : buffers_) {
    cudaEventDestroy(buffer->done);
    cudaFreeHost(buffer->data);
  }
}

PinnedPool::Buffer* PinnedPool::Take(size_t num_bytes) {
  // The smallest that is free and large enough.
  Buffer* best = nullptr;
  for (const std::unique_ptr<Buffer>& buffer : buffers_) {
    if (buffer->in_use || buffer->num_bytes < num_bytes) continue;
    if (best != nullptr && best->num_bytes <= buffer->num_bytes) continue;
    if (cudaEventQuery(buffer->done) != cudaSuccess) continue;
    best = buffer.get();
  }
  // "Not ready" is no error.
  cudaGetLastError();
  if (best == nullptr) {
    const CaptureLock lock(gpu_);
    buffers_.push_back(std::make_unique<Buffer>());
    best = buffers_.back().get();
    best->num_bytes = std::bit_ceil(std::max(num_bytes, kLeastBufferBytes));
    CheckGpu(cudaMallocHost(&best->data, best->num_bytes), device_name_,
             absl::StrCat("pinning ", best->num_bytes, " bytes of the host")
                 .c_str());
    CheckGpu(cudaEventCreateWithFlags(&best->done, cudaEventDisableTiming),
             device_name_, "an event");
  }
  best->in_use = true;
  return best;
}

void PinnedPool::GiveBackAfter(Buffer* buffer, cudaStream_t stream) {
  CheckGpu(cudaEventRecord(buffer->done, stream), device_name_, "an event");
  buffer->in_use = false;
}

}  // namespace oarlock::cuda
