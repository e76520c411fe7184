#include "nn/cpu/cpu_interactions.h"

#include <algorithm>
#include <cstddef>

#include "nn/cpu/interaction_kernels.h"
#include "nn/cpu/norm_kernels.h"

namespace oarlock::nn {

float* CpuInteractions::Room(size_t floats) {
  if (room_.size() < floats) room_.resize(floats);
  return room_.data();
}

void CpuInteractions::FieldAware(const FieldAwareShape& shape, const float* v,
                                 float* y) {
  interaction_kernels::FieldAware(shape, v, y);
}

void CpuInteractions::FieldAwareBackward(const FieldAwareShape& shape,
                                         const float* v, const float* dy,
                                         Write write, float* dv) {
  interaction_kernels::FieldAwareBackward(shape, v, dy, write, dv);
}

void CpuInteractions::Cross(const CrossShape& shape, const float* a,
                            const float* z, const float* x, float* y) {
  interaction_kernels::Cross(shape, a, z, x, y);
}

void CpuInteractions::CrossBackward(const CrossShape& shape, const float* a,
                                    const float* z, const float* dy,
                                    GradientOut da, GradientOut dz) {
  interaction_kernels::CrossBackward(shape, a, z, dy, da, dz);
}

void CpuInteractions::OuterProducts(size_t rows, size_t a_cols, size_t b_cols,
                                    const float* a, const float* b, float* y) {
  interaction_kernels::OuterProducts(rows, a_cols, b_cols, a, b, y);
}

void CpuInteractions::OuterProductsBackward(size_t rows, size_t a_cols,
                                            size_t b_cols, const float* a,
                                            const float* b, const float* dy,
                                            GradientOut da, GradientOut db) {
  interaction_kernels::OuterProductsBackward(rows, a_cols, b_cols, a, b, dy, da,
                                             db);
}

void CpuInteractions::PairwiseDots(const VectorsShape& shape, const float* v,
                                   float* y) {
  interaction_kernels::PairwiseDots(shape, v,
                                    Room(shape.num_vectors * shape.width), y);
}

void CpuInteractions::PairwiseDotsBackward(const VectorsShape& shape,
                                           const float* v, const float* dy,
                                           Write write, float* dv) {
  interaction_kernels::PairwiseDotsBackward(shape, v, dy, write, dv);
}

void CpuInteractions::Attention(const AttentionShape& shape, const float* qkv,
                                float* weights, float* y) {
  if (shape.num_vectors == 0) return;
  interaction_kernels::Attention(
      shape, qkv, Room(interaction_kernels::AttentionRoom(shape)), weights, y);
}

void CpuInteractions::AttentionBackward(const AttentionShape& shape,
                                        const float* qkv, const float* weights,
                                        const float* dy, Write write,
                                        float* dqkv) {
  interaction_kernels::AttentionBackward(
      shape, qkv, weights, dy, Room(interaction_kernels::AttentionRoom(shape)),
      write, dqkv);
}

void CpuInteractions::Transpose(size_t num, size_t rows, size_t cols,
                                const float* x, Write write, float* y) {
  for (size_t n = 0; n < num; ++n) {
    for (size_t c = 0; c < cols; ++c) {
      for (size_t r = 0; r < rows; ++r, ++y) {
        const float value = x[r * cols + c];
        *y = write == Write::kAdd ? *y + value : value;
      }
    }
    x += rows * cols;
  }
}

void CpuInteractions::SumRows(size_t num, size_t rows, size_t cols,
                              const float* x, float* y) {
  interaction_kernels::SumRows(num, rows, cols, x, y);
}

void CpuInteractions::SumRowsBackward(size_t num, size_t rows, size_t cols,
                                      const float* dy, Write write, float* dx) {
  interaction_kernels::SumRowsBackward(num, rows, cols, dy, write, dx);
}

void CpuInteractions::ScaleVectors(const VectorsShape& shape, const float* x,
                                   const float* v, float* y) {
  interaction_kernels::ScaleVectors(shape, x, v, y);
}

void CpuInteractions::ScaleVectorsBackward(const VectorsShape& shape,
                                           const float* x, const float* v,
                                           const float* dy, GradientOut dx,
                                           GradientOut dv) {
  interaction_kernels::ScaleVectorsBackward(shape, x, v, dy, dx, dv);
}

void CpuInteractions::NormMoments(size_t cols, const NormSums& sums,
                                  float* mean, float* variance) {
  const float count = *sums.count;
  for (size_t c = 0; c < cols; ++c) {
    mean[c] = count > 0 ? sums.sum[c] / count : 0;
    variance[c] = count > 0 ? std::max(sums.squares[c] / count, 0.0f) : 1;
  }
}

void CpuInteractions::LearnNorm(size_t rows, size_t cols, float decay,
                                const float* x, const NormSums& sums) {
  if (rows == 0) return;
  float* const means = Room(cols);
  const bool known = *sums.count > 0;
  for (size_t c = 0; known && c < cols; ++c) {
    means[c] = sums.sum[c] / *sums.count;
  }
  norm_kernels::LearnNorm(rows, cols, decay, x, known, means, sums);
}

void CpuInteractions::Standardize(size_t rows, size_t cols, float epsilon,
                                  const float* mean, const float* variance,
                                  const float* x, Write write, float* y) {
  norm_kernels::Standardize(rows, cols, epsilon, mean, variance, x, write, y);
}

}  // namespace oarlock::nn
