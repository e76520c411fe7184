// The GPUs of this machine. Where Oarlock is built without the CUDA toolkit
// there are none, and the reason says so.

#ifndef OARLOCK_NN_CUDA_GPU_H_
#define OARLOCK_NN_CUDA_GPU_H_

#include <memory>
#include <string>

#include "absl/status/statusor.h"
#include "nn/cuda/device.h"

namespace oarlock::nn::cuda {

struct Gpus {
  int count = 0;
  // Where there are none: in the words of the driver, or of what is missing.
  std::string why_none;
};

// Whether the CUDA toolkit was there. Looks for no GPU.
bool BuiltWithCuda();

Gpus FindGpus();

// FailedPrecondition, with the driver's words, if there is no such GPU or it
// cannot be used; where it has no room, with what was asked for and what is
// free. Each device has queues of its own: several may be opened on
// one GPU, whose copies and kernels then overlap.
absl::StatusOr<std::unique_ptr<Device>> OpenGpu(int index);

// The version of the cuDNN that convolves, "9.19.0". FailedPrecondition, with
// the reason, where it is not there: then convolutions go by patches. Looks for
// no GPU.
absl::StatusOr<std::string> FindCudnn();

}  // namespace oarlock::nn::cuda

#endif  // OARLOCK_NN_CUDA_GPU_H_
