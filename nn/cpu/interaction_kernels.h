// The operations of interaction_operations.h, except norms (norm_kernels.h),
// vectorised with Highway for the instruction set found at run time. `room` is
// memory that a call may use.

#ifndef OARLOCK_NN_CPU_INTERACTION_KERNELS_H_
#define OARLOCK_NN_CPU_INTERACTION_KERNELS_H_

#include <cstddef>

#include "nn/interaction_operations.h"

namespace oarlock::nn::interaction_kernels {

void FieldAware(const FieldAwareShape& shape, const float* v, float* y);
void FieldAwareBackward(const FieldAwareShape& shape, const float* v,
                        const float* dy, Write write, float* dv);
void Cross(const CrossShape& shape, const float* a, const float* z,
           const float* x, float* y);
void CrossBackward(const CrossShape& shape, const float* a, const float* z,
                   const float* dy, GradientOut da, GradientOut dz);
void OuterProducts(size_t rows, size_t a_cols, size_t b_cols, const float* a,
                   const float* b, float* y);
void OuterProductsBackward(size_t rows, size_t a_cols, size_t b_cols,
                           const float* a, const float* b, const float* dy,
                           GradientOut da, GradientOut db);
// room: num_vectors * width floats.
void PairwiseDots(const VectorsShape& shape, const float* v, float* room,
                  float* y);
void PairwiseDotsBackward(const VectorsShape& shape, const float* v,
                          const float* dy, Write write, float* dv);
// room: AttentionRoom floats.
inline size_t AttentionRoom(const AttentionShape& shape) {
  return shape.num_vectors * (shape.width + shape.num_vectors);
}
void Attention(const AttentionShape& shape, const float* qkv, float* room,
               float* weights, float* y);
void AttentionBackward(const AttentionShape& shape, const float* qkv,
                       const float* weights, const float* dy, float* room,
                       Write write, float* dqkv);
void SumRows(size_t num, size_t rows, size_t cols, const float* x, float* y);
void SumRowsBackward(size_t num, size_t rows, size_t cols, const float* dy,
                     Write write, float* dx);
void ScaleVectors(const VectorsShape& shape, const float* x, const float* v,
                  float* y);
void ScaleVectorsBackward(const VectorsShape& shape, const float* x,
                          const float* v, const float* dy, GradientOut dx,
                          GradientOut dv);

}  // namespace oarlock::nn::interaction_kernels

#endif  // OARLOCK_NN_CPU_INTERACTION_KERNELS_H_
