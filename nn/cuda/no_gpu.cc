// For a build without the CUDA toolkit.

#include "absl/status/status.h"
#include "nn/cuda/gpu.h"

namespace oarlock::nn::cuda {

bool BuiltWithCuda() { return false; }

Gpus FindGpus() { return {0, "this program was built without CUDA"}; }

absl::StatusOr<std::unique_ptr<Device>> OpenGpu(int index) {
  return absl::FailedPreconditionError(
      "this program was built without CUDA; build it where the CUDA toolkit is "
      "(docs/gpu.md), or use the CPU");
}

absl::StatusOr<std::string> FindCudnn() {
  return absl::FailedPreconditionError(
      "this program was built without CUDA, hence without cuDNN");
}

}  // namespace oarlock::nn::cuda
