// A device that times what it is asked to do: the roofline of a step.

#ifndef OARLOCK_BENCH_GPU_KERNEL_TIMES_H_
#define OARLOCK_BENCH_GPU_KERNEL_TIMES_H_

#include <memory>

#include "worker/nn/cuda/device.h"

namespace oarlock::gpu_bench {

class KernelTimes {
 public:
  virtual ~KernelTimes() = default;
  // Bytes a second of a large copy, multiplications and additions a second of
  // a large product.
  virtual void MeasureCeilings(cuda::Numbers numbers) = 0;
  // Forgets what was timed so far.
  virtual void Start() = 0;
  // A line for each kernel and each shape of product, of one of `steps` steps.
  virtual void Print(int steps) const = 0;
};

// Each launch is waited for, so the whole is slower than it would be. Times
// below some ten microseconds are mostly that of a launch. `*times` lives as
// long as the device.
std::unique_ptr<cuda::Device> NewTimedDevice(
    std::unique_ptr<cuda::Device> device, KernelTimes** times);

}  // namespace oarlock::gpu_bench

#endif  // OARLOCK_BENCH_GPU_KERNEL_TIMES_H_
