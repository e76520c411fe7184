// Products by cuBLASLt. The library is opened when it is needed and is not
// linked. So a program with the CUDA backend starts on a machine without CUDA.

#ifndef OARLOCK_NN_CUDA_CUBLAS_PRODUCTS_H_
#define OARLOCK_NN_CUDA_CUBLAS_PRODUCTS_H_

#include <cublasLt.h>
#include <cuda_runtime_api.h>

#include <array>
#include <cstddef>
#include <cstdint>
#include <map>
#include <memory>
#include <string>

#include "absl/status/statusor.h"
#include "nn/cuda/kernels/product.h"

namespace oarlock::nn::cuda {

// The functions of the library that Oarlock uses.
struct CublasLtFunctions {
  decltype(&cublasLtCreate) create;
  decltype(&cublasLtDestroy) destroy;
  decltype(&cublasLtGetStatusString) status_string;
  decltype(&cublasLtMatmulDescCreate) desc_create;
  decltype(&cublasLtMatmulDescDestroy) desc_destroy;
  decltype(&cublasLtMatmulDescSetAttribute) desc_set;
  decltype(&cublasLtMatrixLayoutCreate) layout_create;
  decltype(&cublasLtMatrixLayoutDestroy) layout_destroy;
  decltype(&cublasLtMatmulPreferenceCreate) preference_create;
  decltype(&cublasLtMatmulPreferenceDestroy) preference_destroy;
  decltype(&cublasLtMatmulPreferenceSetAttribute) preference_set;
  decltype(&cublasLtMatmulAlgoGetHeuristic) heuristic;
  decltype(&cublasLtMatmul) matmul;
};

// FailedPrecondition, with the loader's message, if there is no such library.
absl::StatusOr<CublasLtFunctions> LoadCublasLt();

// Computes on the GPU that is current when the object is created and used. Only
// one thread at a time may use it.
class CublasProducts {
 public:
  // The most bytes of device memory that an algorithm may use.
  static constexpr size_t kWorkspaceBytes = size_t{32} << 20;

  // `workspace` holds kWorkspaceBytes.
  CublasProducts(const CublasLtFunctions& functions, std::string device_name,
                 void* workspace);
  CublasProducts(const CublasProducts&) = delete;
  CublasProducts& operator=(const CublasProducts&) = delete;
  ~CublasProducts();

  // Queues the product. Returns false if the library has no algorithm for it,
  // which is logged once for each shape. The choice of the algorithm depends
  // only on shapes and alignment.
  bool Run(const Product& product, cudaStream_t stream);

 private:
  // The objects that the library prepares for a shape.
  struct Plan;
  using Shape = std::array<uint64_t, 14>;

  void Check(cublasStatus_t status, const char* what) const;
  std::unique_ptr<Plan> Prepare(const Product& product) const;

  const CublasLtFunctions lt_;
  const std::string device_name_;
  void* const workspace_;
  cublasLtHandle_t handle_ = nullptr;
  std::map<Shape, std::unique_ptr<Plan>> plans_;
};

}  // namespace oarlock::nn::cuda

#endif  // OARLOCK_NN_CUDA_CUBLAS_PRODUCTS_H_
