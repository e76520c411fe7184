// What the capture of a graph in one thread asks of all others.

#ifndef OARLOCK_NN_CUDA_CAPTURE_LOCK_H_
#define OARLOCK_NN_CUDA_CAPTURE_LOCK_H_

#include <array>
#include <cstddef>

#include "absl/synchronization/mutex.h"

namespace oarlock::nn::cuda {

// While a thread captures (Device::Capture), CUDA refuses what would wait for
// the whole GPU, of which the capturing stream is a part, and spoils the
// capture: error 900 here or there, and either ends the worker. The captures
// are cudaStreamCaptureModeThreadLocal, so that what is only suspicious to CUDA
// (cudaMalloc, cudaFree, cudaMallocHost, loading a kernel) is legal in other
// threads. Not legal in any thread are cudaDeviceSynchronize, and work on the
// legacy stream that waits for others. No worker calls either; but cuDNN and
// cuBLASLt do when a handle of theirs is made or destroyed, and what memory,
// streams and graphs cost inside the driver differs from version to version.
// Hence the rule:
//   1. Nobody waits for a GPU, only for streams and events of one's own.
//   2. A capture, from its beginning until its graph is prepared, holds the
//      GPU's lock, and so does every call that makes or destroys memory,
//      streams, events, graphs or a library's handle.
//      NCCL's ring (collective/nccl_ring.cc) knows nothing of it: it is made
//      before the first step, and its buffers grow by cudaMalloc, which is
//      legal.
//   3. Nothing else holds it: kernels, products, copies, events and waits for
//      them, on streams that do not wait for the legacy one, are legal beside a
//      capture. A step locks only where it captures or asks for more memory.
//
// Not twice in a thread.
class CaptureLock {
 public:
  explicit CaptureLock(int gpu) : lock_(&MutexOf(gpu)) {}
  CaptureLock(const CaptureLock&) = delete;
  CaptureLock& operator=(const CaptureLock&) = delete;

 private:
  // GPUs that share one are merely slower.
  static constexpr size_t kNumMutexes = 64;

  static absl::Mutex& MutexOf(int gpu) {
    static auto* const mutexes = new std::array<absl::Mutex, kNumMutexes>;
    return (*mutexes)[static_cast<size_t>(gpu) % kNumMutexes];
  }

  const absl::MutexLock lock_;
};

}  // namespace oarlock::nn::cuda

#endif  // OARLOCK_NN_CUDA_CAPTURE_LOCK_H_
