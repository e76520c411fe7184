// Convolutions by cuDNN. The library is opened when it is needed and is not
// linked. So a program with the CUDA backend starts on a machine without cuDNN.
// Where Oarlock is built without cuDNN's header, these functions return an
// error that says so.

#ifndef OARLOCK_NN_CUDA_CUDNN_CONVOLUTIONS_H_
#define OARLOCK_NN_CUDA_CUDNN_CONVOLUTIONS_H_

#include <cuda_runtime_api.h>

#include <cstddef>
#include <memory>
#include <optional>
#include <string>

#include "absl/status/statusor.h"
#include "nn/cuda/convolution_pass.h"

namespace oarlock::nn::cuda {

// The convolutions of the GPU that is current when the object is created and
// used. Only one thread at a time may use it.
class GpuConvolutions {
 public:
  virtual ~GpuConvolutions() = default;
  // As Device::ConvolutionWorkspace. Arrays must be 16-byte aligned.
  virtual std::optional<size_t> WorkspaceBytes(const ConvolutionPass& pass) = 0;
  // As Device::Convolve, in `stream`.
  virtual bool Run(const ConvolutionPass& pass, cudaStream_t stream) = 0;
};

// The version, such as "9.19.0". FailedPrecondition, with the loader's message,
// if there is no such library. Does not look for a GPU.
absl::StatusOr<std::string> CudnnVersion();

// FailedPrecondition, with the message of the loader or the library, where
// there is no cuDNN for the current GPU. A later failure calls DeviceFailed
// with `device_name`.
absl::StatusOr<std::unique_ptr<GpuConvolutions>> NewCudnnConvolutions(
    std::string device_name);

}  // namespace oarlock::nn::cuda

#endif  // OARLOCK_NN_CUDA_CUDNN_CONVOLUTIONS_H_
