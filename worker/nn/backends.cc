#include "worker/nn/backends.h"

#include <optional>
#include <utility>
#include <vector>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "base/status_macros.h"
#include "worker/nn/cuda/cuda_backend.h"
#include "worker/nn/cuda/gpu.h"
#include "worker/nn/onednn_backend.h"
#include "worker/nn/reference_backend.h"

namespace oarlock {
namespace {

// What the name of a GPU's backend says.
struct GpuBackend {
  cuda::CudaOptions options;
  int gpu = 0;
};

std::optional<GpuBackend> ParseGpuBackend(const std::string& name) {
  const std::vector<std::string> parts = absl::StrSplit(name, ':');
  GpuBackend backend;
  if (parts[0] == "cuda_tf32") {
    backend.options.numbers = cuda::Numbers::kTf32;
  } else if (parts[0] == "cuda_bfloat16") {
    backend.options.numbers = cuda::Numbers::kBfloat16;
  } else if (parts[0] != "cuda") {
    return std::nullopt;
  }
  if (parts.size() > 2) return std::nullopt;
  if (parts.size() == 2 &&
      (!absl::SimpleAtoi(parts[1], &backend.gpu) || backend.gpu < 0)) {
    return std::nullopt;
  }
  return backend;
}

}  // namespace

absl::StatusOr<std::unique_ptr<MathBackend>> NewMathBackend(
    const std::string& name, int threads) {
  if (name == "onednn") return NewOneDnnBackend(threads);
  if (name == "onednn_bfloat16") return NewOneDnnBfloat16Backend(threads);
  if (name == "reference") return NewReferenceBackend();
  if (const auto backend = ParseGpuBackend(name)) {
    OARLOCK_ASSIGN_OR_RETURN(std::unique_ptr<cuda::Device> device,
                             cuda::OpenGpu(backend->gpu));
    return cuda::NewCudaBackend(std::move(device), backend->options);
  }
  return absl::InvalidArgumentError(absl::StrCat(
      "math backend is \"", name,
      "\"; legal are \"onednn\", \"onednn_bfloat16\", \"reference\", \"cuda\", "
      "\"cuda_tf32\" and \"cuda_bfloat16\", the last three with \":N\" for GPU "
      "N: choose one"));
}

}  // namespace oarlock
