#include "nn/cuda/cudnn_convolutions.h"

#include <cudnn.h>

#include <algorithm>
#include <array>
#include <cstdint>
#include <limits>
#include <map>
#include <utility>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"
#include "absl/types/span.h"
#include "base/process/shared_library.h"
#include "base/status_macros.h"
#include "nn/cuda/device.h"

namespace oarlock::nn::cuda {
namespace {

// The most device memory for an algorithm, which may convert whole arrays to
// another layout.
constexpr size_t kMaxWorkspaceBytes = size_t{512} << 20;
// The most plans that are kept: more than the shapes of networks and last
// batches.
constexpr size_t kMaxPlans = 4096;
// The most algorithms that the library may list: more than it has.
constexpr int kMaxAlgorithms = 32;
// The alignment of arrays that tensor cores require.
constexpr uint64_t kAlignment = 16;

// The functions of the library that Oarlock uses. The library recommends graphs
// of operations instead, which take many times as many calls for the same
// kernels.
struct CudnnFunctions {
  decltype(&cudnnGetVersion) version;
  decltype(&cudnnGetErrorString) error_string;
  decltype(&cudnnCreate) create;
  decltype(&cudnnDestroy) destroy;
  decltype(&cudnnSetStream) set_stream;
  decltype(&cudnnCreateTensorDescriptor) tensor_create;
  decltype(&cudnnDestroyTensorDescriptor) tensor_destroy;
  decltype(&cudnnSetTensor4dDescriptor) tensor_set;
  decltype(&cudnnCreateFilterDescriptor) filter_create;
  decltype(&cudnnDestroyFilterDescriptor) filter_destroy;
  decltype(&cudnnSetFilter4dDescriptor) filter_set;
  decltype(&cudnnCreateConvolutionDescriptor) convolution_create;
  decltype(&cudnnDestroyConvolutionDescriptor) convolution_destroy;
  decltype(&cudnnSetConvolution2dDescriptor) convolution_set;
  decltype(&cudnnSetConvolutionMathType) set_math_type;
  decltype(&cudnnGetConvolutionForwardAlgorithm_v7) forward_algorithms;
  decltype(&cudnnGetConvolutionForwardWorkspaceSize) forward_workspace;
  decltype(&cudnnConvolutionForward) forward;
  decltype(&cudnnGetConvolutionBackwardFilterAlgorithm_v7) weight_algorithms;
  decltype(&cudnnGetConvolutionBackwardFilterWorkspaceSize) weight_workspace;
  decltype(&cudnnConvolutionBackwardFilter) weight_gradient;
  decltype(&cudnnGetConvolutionBackwardDataAlgorithm_v7) input_algorithms;
  decltype(&cudnnGetConvolutionBackwardDataWorkspaceSize) input_workspace;
  decltype(&cudnnConvolutionBackwardData) input_gradient;
};

// Opens a part of cuDNN, such as "cnn".
absl::StatusOr<SharedLibrary> OpenPart(absl::string_view part) {
  return SharedLibrary::Open(
      absl::StrCat("libcudnn_", part, ".so.", CUDNN_MAJOR),
      {"/usr/local/cuda/lib64"});
}

// Opens the parts of cuDNN for convolutions instead of libcudnn.so: that
// library opens a part at its first use, and ends the process if the part is
// missing.
absl::StatusOr<CudnnFunctions> LoadCudnn() {
  OARLOCK_ASSIGN_OR_RETURN(const SharedLibrary library, OpenPart("cnn"));
  // The library opens these parts itself. Without them it lists no algorithms.
  for (const char* part : {"heuristic", "engines_precompiled"}) {
    OARLOCK_RETURN_IF_ERROR(OpenPart(part).status());
  }
  CudnnFunctions f;
  absl::Status status;
  const auto find = [&](const char* name, auto* function) {
    status.Update(library.Find(name, function));
  };
  find("cudnnGetVersion", &f.version);
  find("cudnnGetErrorString", &f.error_string);
  find("cudnnCreate", &f.create);
  find("cudnnDestroy", &f.destroy);
  find("cudnnSetStream", &f.set_stream);
  find("cudnnCreateTensorDescriptor", &f.tensor_create);
  find("cudnnDestroyTensorDescriptor", &f.tensor_destroy);
  find("cudnnSetTensor4dDescriptor", &f.tensor_set);
  find("cudnnCreateFilterDescriptor", &f.filter_create);
  find("cudnnDestroyFilterDescriptor", &f.filter_destroy);
  find("cudnnSetFilter4dDescriptor", &f.filter_set);
  find("cudnnCreateConvolutionDescriptor", &f.convolution_create);
  find("cudnnDestroyConvolutionDescriptor", &f.convolution_destroy);
  find("cudnnSetConvolution2dDescriptor", &f.convolution_set);
  find("cudnnSetConvolutionMathType", &f.set_math_type);
  find("cudnnGetConvolutionForwardAlgorithm_v7", &f.forward_algorithms);
  find("cudnnGetConvolutionForwardWorkspaceSize", &f.forward_workspace);
  find("cudnnConvolutionForward", &f.forward);
  find("cudnnGetConvolutionBackwardFilterAlgorithm_v7", &f.weight_algorithms);
  find("cudnnGetConvolutionBackwardFilterWorkspaceSize", &f.weight_workspace);
  find("cudnnConvolutionBackwardFilter", &f.weight_gradient);
  find("cudnnGetConvolutionBackwardDataAlgorithm_v7", &f.input_algorithms);
  find("cudnnGetConvolutionBackwardDataWorkspaceSize", &f.input_workspace);
  find("cudnnConvolutionBackwardData", &f.input_gradient);
  OARLOCK_RETURN_IF_ERROR(status);
  return f;
}

// Whether an algorithm sums products of the operands themselves. Winograd and
// Fourier algorithms transform the operands first, so other numbers are
// rounded. Then the sums differ from the sums of patches by more than their
// order.
bool IsDirect(cudnnConvolutionFwdAlgo_t algorithm) {
  return algorithm == CUDNN_CONVOLUTION_FWD_ALGO_IMPLICIT_GEMM ||
         algorithm == CUDNN_CONVOLUTION_FWD_ALGO_IMPLICIT_PRECOMP_GEMM ||
         algorithm == CUDNN_CONVOLUTION_FWD_ALGO_GEMM;
}
bool IsDirect(cudnnConvolutionBwdFilterAlgo_t algorithm) {
  return algorithm == CUDNN_CONVOLUTION_BWD_FILTER_ALGO_1;
}
bool IsDirect(cudnnConvolutionBwdDataAlgo_t algorithm) {
  return algorithm == CUDNN_CONVOLUTION_BWD_DATA_ALGO_1;
}

// Whether an algorithm that the library lists with `math_type` multiplies with
// the precision of `numbers`. CUDNN_DEFAULT_MATH is tf32 where the GPU has it.
bool Multiplies(Numbers numbers, cudnnMathType_t math_type) {
  if (math_type == CUDNN_TENSOR_OP_MATH_ALLOW_CONVERSION) return false;
  return numbers == Numbers::kTf32 || math_type != CUDNN_TENSOR_OP_MATH;
}

bool IsAligned(const float* array) {
  return reinterpret_cast<uint64_t>(array) % kAlignment == 0;
}

// Whether the sizes of the arrays of a ConvolutionPass fit into the library's
// 32-bit numbers.
bool Fits(const ConvolutionPass& pass) {
  const ConvolutionShape& shape = pass.shape;
  return std::max({pass.images * shape.input_size(),
                   pass.images * shape.output_size(), shape.weight_size()}) <=
         static_cast<size_t>(std::numeric_limits<int32_t>::max());
}

// The objects that the library prepares for a shape.
struct Plan {
  explicit Plan(const CudnnFunctions& functions) : cudnn(functions) {}
  Plan(const Plan&) = delete;
  Plan& operator=(const Plan&) = delete;
  ~Plan() {
    for (cudnnTensorDescriptor_t tensor : {x, y}) {
      if (tensor != nullptr) cudnn.tensor_destroy(tensor);
    }
    if (weight != nullptr) cudnn.filter_destroy(weight);
    if (convolution != nullptr) cudnn.convolution_destroy(convolution);
  }

  const CudnnFunctions& cudnn;
  cudnnTensorDescriptor_t x = nullptr, y = nullptr;
  cudnnFilterDescriptor_t weight = nullptr;
  cudnnConvolutionDescriptor_t convolution = nullptr;
  bool has_algorithm = false;
  int algorithm = 0;  // of the enumeration for the kind of the pass
  size_t workspace_bytes = 0;
};

class CudnnConvolutions final : public GpuConvolutions {
 public:
  CudnnConvolutions(const CudnnFunctions& functions, std::string device_name,
                    cudnnHandle_t handle)
      : cudnn_(functions),
        device_name_(std::move(device_name)),
        handle_(handle) {}
  CudnnConvolutions(const CudnnConvolutions&) = delete;
  CudnnConvolutions& operator=(const CudnnConvolutions&) = delete;
  ~CudnnConvolutions() override {
    plans_.clear();
    cudnn_.destroy(handle_);
  }

  std::optional<size_t> WorkspaceBytes(const ConvolutionPass& pass) override {
    if (pass.numbers == Numbers::kBfloat16 || !Fits(pass)) return std::nullopt;
    for (const float* array : {pass.x, pass.weight, pass.dy,
                               static_cast<const float*>(pass.result)}) {
      if (!IsAligned(array)) return std::nullopt;
    }
    const Plan& plan = PlanOf(pass);
    if (!plan.has_algorithm) return std::nullopt;
    return plan.workspace_bytes;
  }

  bool Run(const ConvolutionPass& pass, cudaStream_t stream) override {
    Plan& plan = PlanOf(pass);
    if (!plan.has_algorithm) return false;
    Check(cudnn_.set_stream(handle_, stream), "its stream");
    const cudnnStatus_t status = Queue(pass, plan);
    // Some limits of an algorithm only show here.
    if (CUDNN_STATUS_CATEGORY(status) == CUDNN_STATUS_NOT_SUPPORTED) {
      plan.has_algorithm = false;
      return false;
    }
    if (status != CUDNN_STATUS_SUCCESS) {
      const ConvolutionShape& s = pass.shape;
      Check(status,
            absl::StrCat("a convolution of ", pass.images, " images [",
                         s.image.height, ", ", s.image.width, ", ",
                         s.in_channels, "] to ", s.out_channels, " channels"));
    }
    return true;
  }

 private:
  using Shape = std::array<uint64_t, 14>;

  void Check(cudnnStatus_t status, absl::string_view what) const {
    if (status == CUDNN_STATUS_SUCCESS) return;
    DeviceFailed(absl::StrCat(device_name_, ": cuDNN: ", what, ": ",
                              cudnn_.error_string(status)));
  }

  Plan& PlanOf(const ConvolutionPass& pass);
  std::unique_ptr<Plan> Prepare(const ConvolutionPass& pass) const;
  void Describe(const ConvolutionPass& pass, Plan* plan) const;
  template <typename Result, typename List, typename WorkspaceOf>
  void Choose(Numbers numbers, const List& list,
              const WorkspaceOf& workspace_of, Plan* plan) const;
  cudnnStatus_t Queue(const ConvolutionPass& pass, const Plan& plan) const;

  const CudnnFunctions cudnn_;
  const std::string device_name_;
  const cudnnHandle_t handle_;
  std::map<Shape, std::unique_ptr<Plan>> plans_;
};

Plan& CudnnConvolutions::PlanOf(const ConvolutionPass& pass) {
  const ConvolutionShape& s = pass.shape;
  const Window& w = s.window;
  const Shape shape = {static_cast<uint64_t>(pass.kind),
                       static_cast<uint64_t>(pass.numbers),
                       static_cast<uint64_t>(pass.write),
                       pass.images,
                       s.image.height,
                       s.image.width,
                       s.in_channels,
                       s.out_channels,
                       w.kernel.height,
                       w.kernel.width,
                       w.stride.height,
                       w.stride.width,
                       w.padding.height,
                       w.padding.width};
  const auto known = plans_.find(shape);
  if (known != plans_.end()) return *known->second;
  if (plans_.size() >= kMaxPlans) plans_.clear();
  return *(plans_[shape] = Prepare(pass));
}

void CudnnConvolutions::Describe(const ConvolutionPass& pass,
                                 Plan* plan) const {
  const ConvolutionShape& s = pass.shape;
  const Window& w = s.window;
  const auto tensor = [&](Extent image, size_t channels,
                          cudnnTensorDescriptor_t* to) {
    Check(cudnn_.tensor_create(to), "images");
    Check(cudnn_.tensor_set(
              *to, CUDNN_TENSOR_NHWC, CUDNN_DATA_FLOAT,
              static_cast<int>(pass.images), static_cast<int>(channels),
              static_cast<int>(image.height), static_cast<int>(image.width)),
          "images");
  };
  tensor(s.image, s.in_channels, &plan->x);
  tensor(NumPositions(s.image, w), s.out_channels, &plan->y);
  Check(cudnn_.filter_create(&plan->weight), "a weight");
  Check(cudnn_.filter_set(plan->weight, CUDNN_DATA_FLOAT, CUDNN_TENSOR_NHWC,
                          static_cast<int>(s.out_channels),
                          static_cast<int>(s.in_channels),
                          static_cast<int>(w.kernel.height),
                          static_cast<int>(w.kernel.width)),
        "a weight");
  Check(cudnn_.convolution_create(&plan->convolution), "a window");
  Check(cudnn_.convolution_set(
            plan->convolution, static_cast<int>(w.padding.height),
            static_cast<int>(w.padding.width),
            static_cast<int>(w.stride.height), static_cast<int>(w.stride.width),
            /*dilation_h=*/1, /*dilation_w=*/1, CUDNN_CROSS_CORRELATION,
            CUDNN_DATA_FLOAT),
        "a window");
}

// `list` returns algorithms, the fastest first. Takes the first of them that
// gives the same bits each time, multiplies with the right precision and needs
// little memory.
template <typename Result, typename List, typename WorkspaceOf>
void CudnnConvolutions::Choose(Numbers numbers, const List& list,
                               const WorkspaceOf& workspace_of,
                               Plan* plan) const {
  const auto set_math_type = [&](cudnnMathType_t math_type) {
    Check(cudnn_.set_math_type(plan->convolution, math_type), "a math type");
  };
  const bool tf32 = numbers == Numbers::kTf32;
  set_math_type(tf32 ? CUDNN_TENSOR_OP_MATH : CUDNN_FMA_MATH);
  std::array<Result, kMaxAlgorithms> results = {};
  int found = 0;
  if (list(kMaxAlgorithms, &found, results.data()) != CUDNN_STATUS_SUCCESS) {
    return;
  }
  for (const Result& result : absl::MakeConstSpan(results).first(found)) {
    if (result.status != CUDNN_STATUS_SUCCESS ||
        result.determinism != CUDNN_DETERMINISTIC || !IsDirect(result.algo) ||
        !Multiplies(numbers, result.mathType)) {
      continue;
    }
    // An algorithm selects the listed kernel only together with its math type.
    set_math_type(tf32 ? result.mathType : CUDNN_FMA_MATH);
    size_t num_bytes = 0;
    if (workspace_of(result.algo, &num_bytes) != CUDNN_STATUS_SUCCESS ||
        num_bytes > kMaxWorkspaceBytes) {
      continue;
    }
    plan->has_algorithm = true;
    plan->algorithm = result.algo;
    plan->workspace_bytes = num_bytes;
    return;
  }
}

std::unique_ptr<Plan> CudnnConvolutions::Prepare(
    const ConvolutionPass& pass) const {
  auto plan = std::make_unique<Plan>(cudnn_);
  Describe(pass, plan.get());
  const Plan& p = *plan;
  switch (pass.kind) {
    case ConvolutionPass::Kind::kForward:
      Choose<cudnnConvolutionFwdAlgoPerf_t>(
          pass.numbers,
          [&](int most, int* found, auto* results) {
            return cudnn_.forward_algorithms(handle_, p.x, p.weight,
                                             p.convolution, p.y, most, found,
                                             results);
          },
          [&](auto algorithm, size_t* num_bytes) {
            return cudnn_.forward_workspace(handle_, p.x, p.weight,
                                            p.convolution, p.y, algorithm,
                                            num_bytes);
          },
          plan.get());
      break;
    case ConvolutionPass::Kind::kWeightGradient:
      Choose<cudnnConvolutionBwdFilterAlgoPerf_t>(
          pass.numbers,
          [&](int most, int* found, auto* results) {
            return cudnn_.weight_algorithms(handle_, p.x, p.y, p.convolution,
                                            p.weight, most, found, results);
          },
          [&](auto algorithm, size_t* num_bytes) {
            return cudnn_.weight_workspace(handle_, p.x, p.y, p.convolution,
                                           p.weight, algorithm, num_bytes);
          },
          plan.get());
      break;
    case ConvolutionPass::Kind::kInputGradient:
      Choose<cudnnConvolutionBwdDataAlgoPerf_t>(
          pass.numbers,
          [&](int most, int* found, auto* results) {
            return cudnn_.input_algorithms(handle_, p.weight, p.y,
                                           p.convolution, p.x, most, found,
                                           results);
          },
          [&](auto algorithm, size_t* num_bytes) {
            return cudnn_.input_workspace(handle_, p.weight, p.y, p.convolution,
                                          p.x, algorithm, num_bytes);
          },
          plan.get());
      break;
  }
  return plan;
}

cudnnStatus_t CudnnConvolutions::Queue(const ConvolutionPass& pass,
                                       const Plan& p) const {
  const float alpha = 1;
  // With 0 the old result is not read and may be NaN.
  const float beta = pass.write == Write::kAdd ? 1 : 0;
  switch (pass.kind) {
    case ConvolutionPass::Kind::kForward:
      return cudnn_.forward(
          handle_, &alpha, p.x, pass.x, p.weight, pass.weight, p.convolution,
          static_cast<cudnnConvolutionFwdAlgo_t>(p.algorithm), pass.workspace,
          pass.workspace_bytes, &beta, p.y, pass.result);
    case ConvolutionPass::Kind::kWeightGradient:
      return cudnn_.weight_gradient(
          handle_, &alpha, p.x, pass.x, p.y, pass.dy, p.convolution,
          static_cast<cudnnConvolutionBwdFilterAlgo_t>(p.algorithm),
          pass.workspace, pass.workspace_bytes, &beta, p.weight, pass.result);
    case ConvolutionPass::Kind::kInputGradient:
      break;
  }
  return cudnn_.input_gradient(
      handle_, &alpha, p.weight, pass.weight, p.y, pass.dy, p.convolution,
      static_cast<cudnnConvolutionBwdDataAlgo_t>(p.algorithm), pass.workspace,
      pass.workspace_bytes, &beta, p.x, pass.result);
}

}  // namespace

absl::StatusOr<std::string> CudnnVersion() {
  OARLOCK_ASSIGN_OR_RETURN(const CudnnFunctions cudnn, LoadCudnn());
  const size_t version = cudnn.version();
  return absl::StrCat(version / 10000, ".", version / 100 % 100, ".",
                      version % 100);
}

absl::StatusOr<std::unique_ptr<GpuConvolutions>> NewCudnnConvolutions(
    std::string device_name) {
  OARLOCK_ASSIGN_OR_RETURN(const CudnnFunctions cudnn, LoadCudnn());
  cudnnHandle_t handle = nullptr;
  const cudnnStatus_t status = cudnn.create(&handle);
  if (status != CUDNN_STATUS_SUCCESS) {
    return absl::FailedPreconditionError(
        absl::StrCat("cuDNN cannot start: ", cudnn.error_string(status)));
  }
  return std::make_unique<CudnnConvolutions>(cudnn, std::move(device_name),
                                             handle);
}

}  // namespace oarlock::nn::cuda
