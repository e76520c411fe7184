// A device without a GPU: the kernels' own code, run in loops on memory of the
// host. What it checks that a GPU does not: that copies stay inside what was
// allocated, that nothing reads what was never written (fresh memory is NaN),
// that no result depends on the order of threads, and that what is copied out
// later is not read before Finish.

#ifndef OARLOCK_TESTS_NN_CUDA_EMULATED_DEVICE_H_
#define OARLOCK_TESTS_NN_CUDA_EMULATED_DEVICE_H_

#include <cstddef>
#include <memory>
#include <optional>

#include "nn/cuda/device.h"

namespace oarlock::nn::cuda {

// What the device says when it is asked for a convolution of its own.
enum class OwnConvolution {
  kNever,
  // And it fails when one is done by patches all the same.
  kAlways,
  // That it has one, which then turns out not to be for every second pass.
  kEverySecond,
};

// Bytes between host and device.
struct CopiedBytes {
  size_t in = 0;
  size_t out = 0;
};

struct EmulatedOptions {
  size_t memory_bytes = size_t{1} << 30;
  // Chooses an order of threads.
  unsigned turn = 1;
  OwnConvolution own_convolution = OwnConvolution::kNever;
  // To which is added what is copied, unless null; outlives the device.
  CopiedBytes* copied = nullptr;
  // The GPU that it says it is.
  std::optional<GpuId> gpu_id = std::nullopt;
};

std::unique_ptr<Device> NewEmulatedDevice(const EmulatedOptions& options = {});

}  // namespace oarlock::nn::cuda

#endif  // OARLOCK_TESTS_NN_CUDA_EMULATED_DEVICE_H_
