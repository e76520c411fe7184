// A device without a GPU: the kernels' own code, run in loops on memory of the
// host. What it checks that a GPU does not: that copies stay inside what was
// allocated, that nothing reads what was never written (fresh memory is NaN),
// that no result depends on the order of threads, and that what is copied out
// later is not read before Finish.

#ifndef OARLOCK_TESTS_WORKER_NN_CUDA_EMULATED_DEVICE_H_
#define OARLOCK_TESTS_WORKER_NN_CUDA_EMULATED_DEVICE_H_

#include <cstddef>
#include <memory>

#include "worker/nn/cuda/device.h"

namespace oarlock::cuda {

// A device of `memory_bytes`. `turn` chooses an order of threads.
std::unique_ptr<Device> NewEmulatedDevice(size_t memory_bytes = size_t{1} << 30,
                                          unsigned turn = 1);

}  // namespace oarlock::cuda

#endif  // OARLOCK_TESTS_WORKER_NN_CUDA_EMULATED_DEVICE_H_
