// A pool of pinned host memory. Copies to and from a GPU go through it, so that
// they run at the same time as computation. Its buffers are reused. Also has
// the messages for too little memory.

#ifndef OARLOCK_NN_CUDA_GPU_MEMORY_H_
#define OARLOCK_NN_CUDA_GPU_MEMORY_H_

#include <cuda_runtime_api.h>

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

namespace oarlock::nn::cuda {

// Calls DeviceFailed for the device `name` unless `status` is success. `what`
// names the operation.
void CheckGpu(cudaError_t status, const std::string& name, const char* what);

// "12.5 MiB".
std::string Mebibytes(uint64_t num_bytes);

// "12.5 MiB of 81079.6 MiB are free", for the memory of the current GPU. Where
// the driver does not report it, as before it has created a context, the text
// says so.
std::string FreeOnGpu();

// Only one thread at a time may use it, with the pool's GPU as the current GPU.
class PinnedPool {
 public:
  struct Buffer {
    void* data = nullptr;
    size_t num_bytes = 0;
    // Reached when the copy that uses the buffer is done.
    cudaEvent_t done = nullptr;
    bool in_use = false;
  };

  // A pool for GPU number `gpu`.
  PinnedPool(int gpu, std::string device_name);
  PinnedPool(const PinnedPool&) = delete;
  PinnedPool& operator=(const PinnedPool&) = delete;
  ~PinnedPool();

  // Returns an unused buffer of at least num_bytes, or a new one, and sets
  // in_use. The buffer keeps its address. Calls DeviceFailed when the host has
  // not enough memory: the message says how much was requested and how much was
  // free.
  Buffer* Take(size_t num_bytes);
  // Records `done` in `stream`. Take may return the buffer again once `done` is
  // reached.
  void GiveBackAfter(Buffer* buffer, cudaStream_t stream);

 private:
  std::unique_ptr<Buffer> NewBuffer(size_t num_bytes) const;

  const int gpu_;
  const std::string device_name_;
  std::vector<std::unique_ptr<Buffer>> buffers_;
};

}  // namespace oarlock::nn::cuda

#endif  // OARLOCK_NN_CUDA_GPU_MEMORY_H_
