// Launches what repeats from step to step as one: a step of training is some
// fifty kernels and products of a few microseconds each, as much as each takes
// to launch.
//
// Calls are recorded until somebody waits or copies, then done: runs of them
// that were the same, argument by argument, in the last such lists of the same
// kernels were made graphs and are launched as that; the others are launched
// one by one. So nobody has to say what of a step is fixed, and a graph stands
// only for calls that equal it byte by byte: what is done, and in which order,
// is what was called.
//
// Hence whoever wants graphs asks for copies and numbers at the end of a step,
// not in the middle.

#ifndef OARLOCK_NN_CUDA_REPLAYING_DEVICE_H_
#define OARLOCK_NN_CUDA_REPLAYING_DEVICE_H_

#include <memory>

#include "nn/cuda/device.h"

namespace oarlock::nn::cuda {

// On a device without graphs, that device.
std::unique_ptr<Device> NewReplayingDevice(std::unique_ptr<Device> device);

}  // namespace oarlock::nn::cuda

#endif  // OARLOCK_NN_CUDA_REPLAYING_DEVICE_H_
