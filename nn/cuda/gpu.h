// The GPUs of this machine. Where Oarlock is built without the CUDA toolkit, it
// finds no GPU, and `why_none` says so.

#ifndef OARLOCK_NN_CUDA_GPU_H_
#define OARLOCK_NN_CUDA_GPU_H_

#include <memory>
#include <string>

#include "absl/status/statusor.h"
#include "nn/cuda/device.h"

namespace oarlock::nn::cuda {

struct Gpus {
  int count = 0;
  // If count is 0: the driver's message, or what is missing.
  std::string why_none;
};

// Whether Oarlock was built with the CUDA toolkit. Does not look for a GPU.
bool BuiltWithCuda();

Gpus FindGpus();

// FailedPrecondition, with the driver's message, if there is no such GPU or it
// cannot be used. If the GPU has too little memory, the message says how much
// was requested and how much is free. Each device has queues of its own.
// Several devices may be opened on one GPU; their copies and kernels then
// overlap.
absl::StatusOr<std::unique_ptr<Device>> OpenGpu(int index);

// The version of cuDNN that computes convolutions, "9.19.0".
// FailedPrecondition, with the reason, where there is no cuDNN: then
// convolutions are computed by patches. Does not look for a GPU.
absl::StatusOr<std::string> FindCudnn();

}  // namespace oarlock::nn::cuda

#endif  // OARLOCK_NN_CUDA_GPU_H_
