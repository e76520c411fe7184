// Convolutions by cuDNN, whose library is opened when it is needed, not linked:
// so a program that has the CUDA backend starts on a machine without cuDNN.
// Where Oarlock is built without cuDNN's header there are none, and the reason
// says so.

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

// The convolutions of a GPU, the one that is current when it is made and used.
// One thread at a time.
class GpuConvolutions {
 public:
  virtual ~GpuConvolutions() = default;
  // As Device::ConvolutionWorkspace. Arrays have to be 16-byte aligned.
  virtual std::optional<size_t> WorkspaceBytes(const ConvolutionPass& pass) = 0;
  // As Device::Convolve, in `stream`.
  virtual bool Run(const ConvolutionPass& pass, cudaStream_t stream) = 0;
};

// "9.19.0". FailedPrecondition, with the loader's words, if there is no such
// library. Looks for no GPU.
absl::StatusOr<std::string> CudnnVersion();

// FailedPrecondition, with the loader's or the library's words, where there is
// no cuDNN for the current GPU. A failure later on fails `device_name`.
absl::StatusOr<std::unique_ptr<GpuConvolutions>> NewCudnnConvolutions(
    std::string device_name);

}  // namespace oarlock::nn::cuda

#endif  // OARLOCK_NN_CUDA_CUDNN_CONVOLUTIONS_H_
