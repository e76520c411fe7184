// Interactions of features, and norms by sums, on a device.

#ifndef OARLOCK_NN_CUDA_CUDA_INTERACTIONS_H_
#define OARLOCK_NN_CUDA_CUDA_INTERACTIONS_H_

#include <cstddef>

#include "nn/cuda/device_math.h"
#include "nn/math_backend.h"

namespace oarlock::nn::cuda {

// The part of the CUDA backend that implements InteractionOperations.
class CudaInteractions : public MathBackend {
 public:
  CudaInteractions(Device* device, Numbers numbers);

  void FieldAware(const FieldAwareShape& shape, const float* v, float* y) final;
  void FieldAwareBackward(const FieldAwareShape& shape, const float* v,
                          const float* dy, Write write, float* dv) final;
  void Cross(const CrossShape& shape, const float* a, const float* z,
             const float* x, float* y) final;
  void CrossBackward(const CrossShape& shape, const float* a, const float* z,
                     const float* dy, GradientOut da, GradientOut dz) final;
  void OuterProducts(size_t rows, size_t a_cols, size_t b_cols, const float* a,
                     const float* b, float* y) final;
  void OuterProductsBackward(size_t rows, size_t a_cols, size_t b_cols,
                             const float* a, const float* b, const float* dy,
                             GradientOut da, GradientOut db) final;
  void PairwiseDots(const VectorsShape& shape, const float* v, float* y) final;
  void PairwiseDotsBackward(const VectorsShape& shape, const float* v,
                            const float* dy, Write write, float* dv) final;
  void Attention(const AttentionShape& shape, const float* qkv, float* weights,
                 float* y) final;
  void AttentionBackward(const AttentionShape& shape, const float* qkv,
                         const float* weights, const float* dy, Write write,
                         float* dqkv) final;
  void Transpose(size_t num, size_t rows, size_t cols, const float* x,
                 Write write, float* y) final;
  void SumRows(size_t num, size_t rows, size_t cols, const float* x,
               float* y) final;
  void SumRowsBackward(size_t num, size_t rows, size_t cols, const float* dy,
                       Write write, float* dx) final;
  void ScaleVectors(const VectorsShape& shape, const float* x, const float* v,
                    float* y) final;
  void ScaleVectorsBackward(const VectorsShape& shape, const float* x,
                            const float* v, const float* dy, GradientOut dx,
                            GradientOut dv) final;
  void NormMoments(size_t cols, const NormSums& sums, float* mean,
                   float* variance) final;
  void LearnNorm(size_t rows, size_t cols, float decay, const float* x,
                 const NormSums& sums) final;
  void Standardize(size_t rows, size_t cols, float epsilon, const float* mean,
                   const float* variance, const float* x, Write write,
                   float* y) final;

 protected:
  DeviceMath math_;

 private:
  DeviceBuffer scratch_;
};

}  // namespace oarlock::nn::cuda

#endif  // OARLOCK_NN_CUDA_CUDA_INTERACTIONS_H_
