#include "nn/cuda/gpu_memory.h"

#include <algorithm>
#include <bit>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "base/process/free_memory.h"
#include "nn/cuda/capture_lock.h"
#include "nn/cuda/device.h"

namespace oarlock::nn::cuda {
namespace {

constexpr size_t kLeastBufferBytes = size_t{64} << 10;

}  // namespace

void CheckGpu(cudaError_t status, const std::string& name, const char* what) {
  if (status == cudaSuccess) return;
  DeviceFailed(
      absl::StrCat(name, ": ", what, ": ", cudaGetErrorString(status)));
}

std::string Mebibytes(uint64_t num_bytes) {
  return absl::StrFormat("%.1f MiB", static_cast<double>(num_bytes) / 1048576);
}

std::string FreeOnGpu() {
  size_t free = 0, total = 0;
  if (cudaMemGetInfo(&free, &total) != cudaSuccess) {
    cudaGetLastError();
    return "what is free the driver does not tell here (nvidia-smi does)";
  }
  return absl::StrCat(Mebibytes(free), " of ", Mebibytes(total), " are free");
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
  // The smallest free buffer that is large enough.
  Buffer* best = nullptr;
  for (const std::unique_ptr<Buffer>& buffer : buffers_) {
    if (buffer->in_use || buffer->num_bytes < num_bytes) continue;
    if (best != nullptr && best->num_bytes <= buffer->num_bytes) continue;
    if (cudaEventQuery(buffer->done) != cudaSuccess) continue;
    best = buffer.get();
  }
  // Clears "not ready", which is not an error.
  cudaGetLastError();
  if (best == nullptr) {
    buffers_.push_back(
        NewBuffer(std::bit_ceil(std::max(num_bytes, kLeastBufferBytes))));
    best = buffers_.back().get();
  }
  best->in_use = true;
  return best;
}

std::unique_ptr<PinnedPool::Buffer> PinnedPool::NewBuffer(
    size_t num_bytes) const {
  auto buffer = std::make_unique<Buffer>();
  buffer->num_bytes = num_bytes;
  const CaptureLock lock(gpu_);
  const cudaError_t status = cudaMallocHost(&buffer->data, num_bytes);
  if (status == cudaErrorMemoryAllocation) {
    // 0 where the system does not report it.
    const uint64_t free = FreeMemoryBytes();
    DeviceFailed(absl::StrCat(
        device_name_, ": the host has not enough memory to pin: ",
        Mebibytes(num_bytes), " were asked for",
        free == 0 ? "" : absl::StrCat(", ", Mebibytes(free), " are free"),
        "; use a smaller --batch_size or fewer threads"));
  }
  CheckGpu(status, device_name_, "pinning memory of the host");
  CheckGpu(cudaEventCreateWithFlags(&buffer->done, cudaEventDisableTiming),
           device_name_, "an event");
  return buffer;
}

void PinnedPool::GiveBackAfter(Buffer* buffer, cudaStream_t stream) {
  CheckGpu(cudaEventRecord(buffer->done, stream), device_name_, "an event");
  buffer->in_use = false;
}

}  // namespace oarlock::nn::cuda
