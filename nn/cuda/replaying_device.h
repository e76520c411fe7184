// Launches calls that repeat from step to step as one graph. A step of training
// has some fifty kernels and products. Each runs for a few microseconds, and
// launching it takes as long.
//
// Calls are recorded until a call waits or copies; then the list runs. Runs of
// calls that were the same, argument by argument, in the last lists of the same
// kernels have become graphs. Such a run is launched as its graph; other calls
// are launched one by one. So callers need not declare which part of a step is
// fixed. A graph replaces only calls that equal it byte by byte, so the result
// and the order are those of the calls.
//
// Therefore a caller that needs graphs requests copies and numbers at the end
// of a step, not in the middle.

#ifndef OARLOCK_NN_CUDA_REPLAYING_DEVICE_H_
#define OARLOCK_NN_CUDA_REPLAYING_DEVICE_H_

#include <memory>

#include "nn/cuda/device.h"

namespace oarlock::nn::cuda {

// A replaying device that wraps `device`. If `device` has no graphs, all calls
// go directly to it.
std::unique_ptr<Device> NewReplayingDevice(std::unique_ptr<Device> device);

}  // namespace oarlock::nn::cuda

#endif  // OARLOCK_NN_CUDA_REPLAYING_DEVICE_H_
