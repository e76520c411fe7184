// Everything that the conformance suite of math backends runs on: the backends
// of this machine, and the CUDA backend on an emulated device, so that it is
// tested where there is no GPU.

#ifndef OARLOCK_TESTS_NN_BACKENDS_CONFORMING_BACKENDS_H_
#define OARLOCK_TESTS_NN_BACKENDS_CONFORMING_BACKENDS_H_

#include <cstddef>
#include <memory>
#include <string>
#include <vector>

#include "nn/backends/backends.h"
#include "nn/cuda/cuda_backend.h"
#include "nn/cuda/gpu.h"
#include "tests/nn/backends/available_backends.h"
#include "tests/nn/cuda/emulated_device.h"

namespace oarlock::nn {

inline std::vector<std::string> ConformingBackends() {
  std::vector<std::string> names = AvailableBackends();
  for (const char* name :
       {"emulated_cuda", "emulated_cuda_tf32", "emulated_cuda_bfloat16"}) {
    names.push_back(name);
  }
  if (cuda::FindGpus().count > 0) {
    for (const char* name : {"cuda", "cuda_tf32", "cuda_bfloat16"}) {
      names.push_back(name);
    }
  }
  return names;
}

// For operations on images also on emulated devices that convolve themselves,
// or now and then. With bfloat16 a device is not asked.
inline std::vector<std::string> ConformingImageBackends() {
  std::vector<std::string> names = ConformingBackends();
  for (const char* name :
       {"convolving_cuda", "convolving_cuda_tf32", "half_convolving_cuda"}) {
    names.push_back(name);
  }
  return names;
}

inline std::unique_ptr<MathBackend> NewConformingBackend(
    const std::string& name) {
  const size_t at = name.find("cuda");
  if (at == std::string::npos) return *NewMathBackend(name);
  const std::string device = name.substr(0, at);
  const std::string numbers = name.substr(at);
  cuda::CudaOptions options;
  if (numbers == "cuda_tf32") options.numbers = cuda::Numbers::kTf32;
  if (numbers == "cuda_bfloat16") options.numbers = cuda::Numbers::kBfloat16;
  if (device.empty()) return cuda::NewCudaBackend(*cuda::OpenGpu(0), options);
  auto own_convolution = cuda::OwnConvolution::kNever;
  if (device == "convolving_") {
    own_convolution = cuda::OwnConvolution::kAlways;
  } else if (device == "half_convolving_") {
    own_convolution = cuda::OwnConvolution::kEverySecond;
  }
  return cuda::NewCudaBackend(
      cuda::NewEmulatedDevice({.own_convolution = own_convolution}), options);
}

}  // namespace oarlock::nn

#endif  // OARLOCK_TESTS_NN_BACKENDS_CONFORMING_BACKENDS_H_
