// The operations of interaction_operations.h on a CPU, with Highway
// (interaction_kernels.h, norm_kernels.h). They are a part of the fast backends
// for the CPU.

#ifndef OARLOCK_NN_CPU_CPU_INTERACTIONS_H_
#define OARLOCK_NN_CPU_CPU_INTERACTIONS_H_

#include <cstddef>
#include <vector>

#include "nn/host_backend.h"

namespace oarlock::nn {

class CpuInteractions : public HostBackend {
 public:
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

 private:
  // Memory for at least `floats` floats. All operations share it, one after the
  // other.
  float* Room(size_t floats);

  std::vector<float> room_;
};

}  // namespace oarlock::nn

#endif  // OARLOCK_NN_CPU_CPU_INTERACTIONS_H_
