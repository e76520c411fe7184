// The operations of interaction_operations.h for backends with memory of their
// own that do not implement them yet. Every operation copies its arrays to the
// host, computes with a host backend and copies the result back. This is slow
// but correct.

#ifndef OARLOCK_NN_HOST_INTERACTIONS_H_
#define OARLOCK_NN_HOST_INTERACTIONS_H_

#include <cstddef>
#include <memory>

#include "nn/math_backend.h"

namespace oarlock::nn {

class HostInteractions : public MathBackend {
 public:
  explicit HostInteractions(std::unique_ptr<MathBackend> host);

  void FieldAware(const FieldAwareShape& shape, const float* v,
                  float* y) override;
  void FieldAwareBackward(const FieldAwareShape& shape, const float* v,
                          const float* dy, Write write, float* dv) override;
  void Cross(const CrossShape& shape, const float* a, const float* z,
             const float* x, float* y) override;
  void CrossBackward(const CrossShape& shape, const float* a, const float* z,
                     const float* dy, GradientOut da, GradientOut dz) override;
  void OuterProducts(size_t rows, size_t a_cols, size_t b_cols, const float* a,
                     const float* b, float* y) override;
  void OuterProductsBackward(size_t rows, size_t a_cols, size_t b_cols,
                             const float* a, const float* b, const float* dy,
                             GradientOut da, GradientOut db) override;
  void PairwiseDots(const VectorsShape& shape, const float* v,
                    float* y) override;
  void PairwiseDotsBackward(const VectorsShape& shape, const float* v,
                            const float* dy, Write write, float* dv) override;
  void Attention(const AttentionShape& shape, const float* qkv, float* weights,
                 float* y) override;
  void AttentionBackward(const AttentionShape& shape, const float* qkv,
                         const float* weights, const float* dy, Write write,
                         float* dqkv) override;
  void Transpose(size_t num, size_t rows, size_t cols, const float* x,
                 Write write, float* y) override;
  void SumRows(size_t num, size_t rows, size_t cols, const float* x,
               float* y) override;
  void SumRowsBackward(size_t num, size_t rows, size_t cols, const float* dy,
                       Write write, float* dx) override;
  void ScaleVectors(const VectorsShape& shape, const float* x, const float* v,
                    float* y) override;
  void ScaleVectorsBackward(const VectorsShape& shape, const float* x,
                            const float* v, const float* dy, GradientOut dx,
                            GradientOut dv) override;
  void NormMoments(size_t cols, const NormSums& sums, float* mean,
                   float* variance) override;
  void LearnNorm(size_t rows, size_t cols, float decay, const float* x,
                 const NormSums& sums) override;
  void Standardize(size_t rows, size_t cols, float epsilon, const float* mean,
                   const float* variance, const float* x, Write write,
                   float* y) override;

 private:
  class Copies;

  const std::unique_ptr<MathBackend> host_;
};

}  // namespace oarlock::nn

#endif  // OARLOCK_NN_HOST_INTERACTIONS_H_
