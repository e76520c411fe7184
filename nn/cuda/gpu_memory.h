// Pinned memory of the host that copies to and from a GPU go through, so that
// they run beside computation: buffers that are used again and again. And what
// is said where there is not enough memory.

#ifndef OARLOCK_NN_CUDA_GPU_MEMORY_H_
#define OARLOCK_NN_CUDA_GPU_MEMORY_H_

#include <cuda_runtime_api.h>

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

namespace oarlock::nn::cuda {

// Fails the device `name` (DeviceFailed) unless `status` is success; `what`
// was being done.
void CheckGpu(cudaError_t status, const std::string& name, const char* what);

// "12.5 MiB".
std::string Mebibytes(uint64_t num_bytes);

// "12.5 MiB of 81079.6 MiB are free", of the memory of the current GPU. Where
// the driver does not tell, as before it has made a context, that.
std::string FreeOnGpu();

// One thread at a time, on the GPU that is current.
class PinnedPool {
 public:
  struct Buffer {
    void* data = nullptr;
    size_t num_bytes = 0;
    // When the copy that uses it is done.
    cudaEvent_t done = nullptr;
    bool in_use = false;
  };

  // Of GPU number `gpu`.
  PinnedPool(int gpu, std::string device_name);
  PinnedPool(const PinnedPool&) = delete;
  PinnedPool& operator=(const PinnedPool&) = delete;
  ~PinnedPool();

  // One of at least num_bytes that nobody uses, or a new one; in_use. Stays
  // where it is. Fails the device when the host has not enough memory: the
  // message says what was asked for and what was free.
  Buffer* Take(size_t num_bytes);
  // Records `done` in `stream`; Take may give the buffer out again after that.
  void GiveBackAfter(Buffer* buffer, cudaStream_t stream);

 private:
  std::unique_ptr<Buffer> NewBuffer(size_t num_bytes) const;

  const int gpu_;
  const std::string device_name_;
  std::vector<std::unique_ptr<Buffer>> buffers_;
};

}  // namespace oarlock::nn::cuda

#endif  // OARLOCK_NN_CUDA_GPU_MEMORY_H_
