// The rule that all threads follow while one thread captures a graph.

#ifndef OARLOCK_NN_CUDA_CAPTURE_LOCK_H_
#define OARLOCK_NN_CUDA_CAPTURE_LOCK_H_

#include <array>
#include <cstddef>

#include "absl/synchronization/mutex.h"

namespace oarlock::nn::cuda {

// While a thread captures (Device::Capture), CUDA refuses calls that would wait
// for the whole GPU, because the capturing stream is a part of it. Such a call
// also invalidates the capture. The call or the capture fails with error 900,
// and either failure ends the worker. The captures use
// cudaStreamCaptureModeThreadLocal. So calls that CUDA only considers
// potentially unsafe (cudaMalloc, cudaFree, cudaMallocHost, loading a kernel)
// are legal in other threads. Two kinds of calls are legal in no thread:
// cudaDeviceSynchronize, and work on the legacy stream that waits for other
// streams. No worker makes such calls. But cuDNN and cuBLASLt make them when
// one of their handles is created or destroyed. And the work inside the driver
// for memory, streams and graphs differs from version to version. Hence the
// rule:
//   1. No thread waits for a whole GPU, only for its own streams and events.
//   2. A capture holds the GPU's lock from its beginning until its graph is
//      prepared. Every call that creates or destroys memory, streams, events,
//      graphs or a library's handle holds it too. NCCL's ring
//      (collective/nccl_ring.cc) does not use the lock: it is created before
//      the first step, and its buffers grow by cudaMalloc, which is legal.
//   3. Nothing else holds the lock. Kernels, products, copies, events and waits
//      for them are legal during a capture, on streams that do not wait for the
//      legacy stream. A step locks only where it captures or allocates more
//      memory.
//
// A thread must not hold it twice.
class CaptureLock {
 public:
  explicit CaptureLock(int gpu) : lock_(&MutexOf(gpu)) {}
  CaptureLock(const CaptureLock&) = delete;
  CaptureLock& operator=(const CaptureLock&) = delete;

 private:
  // GPUs that share a mutex are only slower.
  static constexpr size_t kNumMutexes = 64;

  static absl::Mutex& MutexOf(int gpu) {
    static auto* const mutexes = new std::array<absl::Mutex, kNumMutexes>;
    return (*mutexes)[static_cast<size_t>(gpu) % kNumMutexes];
  }

  const absl::MutexLock lock_;
};

}  // namespace oarlock::nn::cuda

#endif  // OARLOCK_NN_CUDA_CAPTURE_LOCK_H_
