// For a build with the CUDA toolkit but without cuDNN's header.

#include "absl/status/status.h"
#include "nn/cuda/cudnn_convolutions.h"

namespace oarlock::nn::cuda {

absl::StatusOr<std::string> CudnnVersion() {
  return absl::FailedPreconditionError(
      "this program was built without cuDNN; build it where CUDA and cuDNN are "
      "(docs/gpu.md)");
}

absl::StatusOr<std::unique_ptr<GpuConvolutions>> NewCudnnConvolutions(
    std::string device_name) {
  return CudnnVersion().status();
}

}  // namespace oarlock::nn::cuda
