#include "nn/cuda/cublas_products.h"

#include <algorithm>
#include <bit>
#include <set>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/synchronization/mutex.h"
#include "base/log.h"
#include "base/process/shared_library.h"
#include "base/status_macros.h"
#include "nn/cuda/device.h"

namespace oarlock::nn::cuda {
namespace {

// The most plans that are kept: more than the shapes of networks and last
// batches.
constexpr size_t kMaxPlans = 4096;

uint32_t AlignmentOf(const void* data) {
  const uint64_t address = reinterpret_cast<uint64_t>(data);
  return address == 0 ? 256
                      : uint32_t{1} << std::min(8, std::countr_zero(address));
}

const char* NameOf(Numbers numbers) {
  switch (numbers) {
    case Numbers::kFloat32:
      return "float32";
    case Numbers::kTf32:
      return "tf32";
    case Numbers::kBfloat16:
      break;
  }
  return "bfloat16";
}

// Logs once for a shape, not for each device and layer.
void WarnOfPlainLoop(const std::string& device_name, const Product& p,
                     const char* why) {
  using Said = std::set<std::array<uint64_t, 4>>;
  static absl::Mutex mutex;
  static auto* const said = new Said;
  {
    absl::MutexLock lock(&mutex);
    if (said->size() >= kMaxPlans) return;
    const bool is_new =
        said->insert({static_cast<uint64_t>(p.numbers), p.m, p.n, p.k}).second;
    if (!is_new) return;
  }
  Log().warn(
      "{}: cuBLASLt has no algorithm for a product of [{}, {}] and [{}, {}] in "
      "{} ({}): a plain loop computes it, many times slower",
      device_name, p.m, p.k, p.k, p.n, NameOf(p.numbers), why);
}

}  // namespace

absl::StatusOr<CublasLtFunctions> LoadCublasLt() {
  OARLOCK_ASSIGN_OR_RETURN(
      const SharedLibrary library,
      SharedLibrary::Open(absl::StrCat("libcublasLt.so.", CUBLAS_VER_MAJOR),
                          {"/usr/local/cuda/lib64"}));
  CublasLtFunctions lt;
  OARLOCK_RETURN_IF_ERROR(library.Find("cublasLtCreate", &lt.create));
  OARLOCK_RETURN_IF_ERROR(library.Find("cublasLtDestroy", &lt.destroy));
  OARLOCK_RETURN_IF_ERROR(
      library.Find("cublasLtGetStatusString", &lt.status_string));
  OARLOCK_RETURN_IF_ERROR(
      library.Find("cublasLtMatmulDescCreate", &lt.desc_create));
  OARLOCK_RETURN_IF_ERROR(
      library.Find("cublasLtMatmulDescDestroy", &lt.desc_destroy));
  OARLOCK_RETURN_IF_ERROR(
      library.Find("cublasLtMatmulDescSetAttribute", &lt.desc_set));
  OARLOCK_RETURN_IF_ERROR(
      library.Find("cublasLtMatrixLayoutCreate", &lt.layout_create));
  OARLOCK_RETURN_IF_ERROR(
      library.Find("cublasLtMatrixLayoutDestroy", &lt.layout_destroy));
  OARLOCK_RETURN_IF_ERROR(
      library.Find("cublasLtMatmulPreferenceCreate", &lt.preference_create));
  OARLOCK_RETURN_IF_ERROR(
      library.Find("cublasLtMatmulPreferenceDestroy", &lt.preference_destroy));
  OARLOCK_RETURN_IF_ERROR(
      library.Find("cublasLtMatmulPreferenceSetAttribute", &lt.preference_set));
  OARLOCK_RETURN_IF_ERROR(
      library.Find("cublasLtMatmulAlgoGetHeuristic", &lt.heuristic));
  OARLOCK_RETURN_IF_ERROR(library.Find("cublasLtMatmul", &lt.matmul));
  return lt;
}

struct CublasProducts::Plan {
  explicit Plan(const CublasLtFunctions& functions) : lt(functions) {}
  ~Plan() {
    for (cublasLtMatrixLayout_t layout : {a, b, c}) {
      if (layout != nullptr) lt.layout_destroy(layout);
    }
    if (product != nullptr) lt.desc_destroy(product);
  }

  const CublasLtFunctions& lt;
  cublasLtMatmulDesc_t product = nullptr;
  cublasLtMatrixLayout_t a = nullptr, b = nullptr, c = nullptr;
  bool has_algorithm = false;
  cublasLtMatmulAlgo_t algorithm;
};

CublasProducts::CublasProducts(const CublasLtFunctions& functions,
                               std::string device_name, void* workspace)
    : lt_(functions),
      device_name_(std::move(device_name)),
      workspace_(workspace) {
  Check(lt_.create(&handle_), "its start");
}

CublasProducts::~CublasProducts() {
  plans_.clear();
  lt_.destroy(handle_);
}

void CublasProducts::Check(cublasStatus_t status, const char* what) const {
  if (status == CUBLAS_STATUS_SUCCESS) return;
  DeviceFailed(absl::StrCat(device_name_, ": cuBLAS: ", what, ": ",
                            lt_.status_string(status)));
}

std::unique_ptr<CublasProducts::Plan> CublasProducts::Prepare(
    const Product& p) const {
  auto plan = std::make_unique<Plan>(lt_);
  const cublasComputeType_t compute = p.numbers == Numbers::kTf32
                                          ? CUBLAS_COMPUTE_32F_FAST_TF32
                                          : CUBLAS_COMPUTE_32F;
  Check(lt_.desc_create(&plan->product, compute, CUDA_R_32F), "a product");
  const auto set = [&](cublasLtMatmulDescAttributes_t attribute, auto value) {
    Check(lt_.desc_set(plan->product, attribute, &value, sizeof(value)),
          "an attribute");
  };
  set(CUBLASLT_MATMUL_DESC_TRANSA, p.a.transposed ? CUBLAS_OP_T : CUBLAS_OP_N);
  set(CUBLASLT_MATMUL_DESC_TRANSB, p.b.transposed ? CUBLAS_OP_T : CUBLAS_OP_N);
  const bool relu = p.activation == Activation::kRelu;
  if (p.bias != nullptr) {
    set(CUBLASLT_MATMUL_DESC_EPILOGUE,
        relu ? CUBLASLT_EPILOGUE_RELU_BIAS : CUBLASLT_EPILOGUE_BIAS);
    set(CUBLASLT_MATMUL_DESC_BIAS_DATA_TYPE, CUDA_R_32F);
  } else if (relu) {
    set(CUBLASLT_MATMUL_DESC_EPILOGUE, CUBLASLT_EPILOGUE_RELU);
  }
  const cudaDataType_t operand =
      p.numbers == Numbers::kBfloat16 ? CUDA_R_16BF : CUDA_R_32F;
  const auto layout = [&](cudaDataType_t type, size_t rows, size_t cols,
                          size_t stride, cublasLtMatrixLayout_t* to) {
    Check(lt_.layout_create(to, type, rows, cols, static_cast<int64_t>(stride)),
          "a layout");
  };
  const auto operand_layout = [&](const Product::Operand& matrix, size_t rows,
                                  size_t cols, cublasLtMatrixLayout_t* to) {
    if (matrix.transposed) std::swap(rows, cols);
    layout(operand, rows, cols, matrix.stride, to);
  };
  operand_layout(p.a, p.m, p.k, &plan->a);
  operand_layout(p.b, p.k, p.n, &plan->b);
  layout(CUDA_R_32F, p.m, p.n, p.c_stride, &plan->c);

  cublasLtMatmulPreference_t preference;
  Check(lt_.preference_create(&preference), "a preference");
  const auto prefer = [&](cublasLtMatmulPreferenceAttributes_t attribute,
                          auto value) {
    Check(lt_.preference_set(preference, attribute, &value, sizeof(value)),
          "a preference");
  };
  prefer(CUBLASLT_MATMUL_PREF_MAX_WORKSPACE_BYTES, uint64_t{kWorkspaceBytes});
  prefer(CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_A_BYTES, AlignmentOf(p.a.data));
  prefer(CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_B_BYTES, AlignmentOf(p.b.data));
  prefer(CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_C_BYTES, AlignmentOf(p.c));
  prefer(CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_D_BYTES, AlignmentOf(p.c));
  if (p.bias != nullptr) {
    set(CUBLASLT_MATMUL_DESC_BIAS_POINTER, p.bias);
  }
  cublasLtMatmulHeuristicResult_t result;
  int found = 0;
  const cublasStatus_t status =
      lt_.heuristic(handle_, plan->product, plan->a, plan->b, plan->c, plan->c,
                    preference, 1, &result, &found);
  lt_.preference_destroy(preference);
  plan->has_algorithm = status == CUBLAS_STATUS_SUCCESS && found > 0;
  if (plan->has_algorithm) {
    plan->algorithm = result.algo;
  } else {
    WarnOfPlainLoop(device_name_, p,
                    status == CUBLAS_STATUS_SUCCESS
                        ? "none is listed"
                        : lt_.status_string(status));
  }
  return plan;
}

bool CublasProducts::Run(const Product& p, cudaStream_t stream) {
  const Shape shape = {static_cast<uint64_t>(p.numbers),
                       p.m,
                       p.n,
                       p.k,
                       p.a.stride,
                       p.a.transposed,
                       p.b.stride,
                       p.b.transposed,
                       p.c_stride,
                       p.bias != nullptr ? AlignmentOf(p.bias) : 0,
                       static_cast<uint64_t>(p.activation),
                       AlignmentOf(p.a.data),
                       AlignmentOf(p.b.data),
                       AlignmentOf(p.c)};
  std::unique_ptr<Plan>& plan = plans_[shape];
  if (plan == nullptr) {
    if (plans_.size() > kMaxPlans) {
      plans_.clear();
      return Run(p, stream);
    }
    plan = Prepare(p);
  }
  if (!plan->has_algorithm) return false;
  if (p.bias != nullptr) {
    Check(lt_.desc_set(plan->product, CUBLASLT_MATMUL_DESC_BIAS_POINTER,
                       &p.bias, sizeof(p.bias)),
          "a bias");
  }
  const float alpha = 1;
  const float beta = p.write == Write::kAdd ? 1 : 0;
  Check(lt_.matmul(handle_, plan->product, &alpha, p.a.data, plan->a, p.b.data,
                   plan->b, &beta, p.c, plan->c, p.c, plan->c, &plan->algorithm,
                   workspace_, kWorkspaceBytes, stream),
        absl::StrCat("a product of [", p.m, ", ", p.k, "] and [", p.k, ", ",
                     p.n, "]")
            .c_str());
  return true;
}

}  // namespace oarlock::nn::cuda
