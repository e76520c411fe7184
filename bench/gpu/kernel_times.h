// A device that times what it is asked to do: the roofline of a step.

#ifndef OARLOCK_BENCH_GPU_KERNEL_TIMES_H_
#define OARLOCK_BENCH_GPU_KERNEL_TIMES_H_

#include <memory>

#include "base/clock.h"
#include "nn/cuda/device.h"

namespace oarlock::gpu_bench {

class KernelTimes {
 public:
  virtual ~KernelTimes() = default;
  // Bytes a second of a large copy, read and written, and multiplications and
  // additions a second of a large product. On a GPU.
  virtual void MeasureCeilings(nn::cuda::Numbers numbers) = 0;
  // Times all calls from here on.
  virtual void Start() = 0;
  // A line for each kernel and each shape of product: how often it was called,
  // what it took, and what its bytes or its multiplications, whichever take
  // longer, would at the ceilings ("-": not counted).
  virtual void Print() const = 0;
};

// A call that is timed is made some hundred times more, in graphs, after one
// whose sums stay right: those of a step are wrong then, for what is added is
// added as often, but finite. What its numbers fit into, the GPU's cache, they
// are found in, as in a small batch's step. `*times` lives as long as the
// device, and `clock` longer.
std::unique_ptr<nn::cuda::Device> NewTimedDevice(
    std::unique_ptr<nn::cuda::Device> device, const Clock& clock,
    KernelTimes** times);

}  // namespace oarlock::gpu_bench

#endif  // OARLOCK_BENCH_GPU_KERNEL_TIMES_H_
