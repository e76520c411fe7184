#include "nn/backends/backends.h"

#include <optional>
#include <utility>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "absl/strings/string_view.h"
#include "base/status_macros.h"
#include "nn/cuda/cuda_backend.h"
#include "nn/cuda/gpu.h"
#include "nn/onednn/onednn_backend.h"
#include "nn/reference/reference_backend.h"

namespace oarlock::nn {
namespace {

struct GpuBackend {
  cuda::Numbers numbers;
  int gpu;
};

// Parses a name such as "cuda_tf32:1".
std::optional<GpuBackend> ParseGpuBackend(absl::string_view name) {
  const std::pair<absl::string_view, absl::string_view> parts =
      absl::StrSplit(name, absl::MaxSplits(':', 1));
  GpuBackend backend;
  if (parts.first == "cuda") {
    backend.numbers = cuda::Numbers::kFloat32;
  } else if (parts.first == "cuda_tf32") {
    backend.numbers = cuda::Numbers::kTf32;
  } else if (parts.first == "cuda_bfloat16") {
    backend.numbers = cuda::Numbers::kBfloat16;
  } else {
    return std::nullopt;
  }
  if (!absl::SimpleAtoi(parts.second, &backend.gpu)) return std::nullopt;
  return backend;
}

}  // namespace

absl::StatusOr<std::unique_ptr<MathBackend>> NewMathBackend(
    const std::string& name, int threads) {
  if (name == "onednn") return NewOneDnnBackend(threads);
  if (name == "onednn_bfloat16") return NewOneDnnBfloat16Backend(threads);
  if (name == "reference") return NewReferenceBackend();
  if (const std::optional<GpuBackend> backend = ParseGpuBackend(name)) {
    OARLOCK_ASSIGN_OR_RETURN(std::unique_ptr<cuda::Device> device,
                             cuda::OpenGpu(backend->gpu));
    cuda::CudaOptions options;
    options.numbers = backend->numbers;
    return cuda::NewCudaBackend(std::move(device), options);
  }
  return absl::InvalidArgumentError(absl::StrCat(
      "math backend is \"", name,
      "\"; legal are \"onednn\", \"onednn_bfloat16\", \"reference\", and "
      "\"cuda:N\", \"cuda_tf32:N\" and \"cuda_bfloat16:N\" for GPU number N: "
      "choose one"));
}

}  // namespace oarlock::nn
