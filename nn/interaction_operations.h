// The part of MathBackend for interactions of features and for norms by sums.
// The rules of math_backend.h for arrays, memory and threads apply here too.

#ifndef OARLOCK_NN_INTERACTION_OPERATIONS_H_
#define OARLOCK_NN_INTERACTION_OPERATIONS_H_

#include <cstddef>

#include "nn/operation.h"

namespace oarlock::nn {

// Vectors of field-aware factorization machines: v [num_examples, fields,
// fields, width]; v[e, i, j] is the vector that field i uses when meeting field
// j.
struct FieldAwareShape {
  size_t num_examples = 0;
  size_t fields = 0;
  size_t width = 0;
};

// a, x and y are [rows, cols]; z is [rows, z_cols] with z_cols 1 or cols. With
// 1, z is the same for all columns.
struct CrossShape {
  size_t rows = 0;
  size_t cols = 0;
  size_t z_cols = 0;
};

// [num_examples, num_vectors, width].
struct VectorsShape {
  size_t num_examples = 0;
  size_t num_vectors = 0;
  size_t width = 0;
};

// The queries, keys and values of one example are [num_vectors, 3, heads,
// width].
struct AttentionShape {
  size_t num_examples = 0;
  size_t num_vectors = 0;
  size_t heads = 0;
  size_t width = 0;
};

// A gradient to compute; null data: not needed.
struct GradientOut {
  float* data = nullptr;
  Write write = Write::kOverwrite;
};

// Sums over examples, each of cols columns.
struct NormSums {
  float* count = nullptr;    // [1]
  float* sum = nullptr;      // [cols]
  float* squares = nullptr;  // [cols]: sums of squared distances to the mean
};

class InteractionOperations {
 public:
  virtual ~InteractionOperations() = default;

  // y[e] = the sum of v[e,i,j] . v[e,j,i] over all i < j (Juan et al.,
  // Field-aware Factorization Machines, 2016).
  virtual void FieldAware(const FieldAwareShape& shape, const float* v,
                          float* y) = 0;
  // dv[e,i,j] = dy[e] * v[e,j,i], and 0 for i = j.
  virtual void FieldAwareBackward(const FieldAwareShape& shape, const float* v,
                                  const float* dy, Write write, float* dv) = 0;

  // y = a z + x, number by number.
  virtual void Cross(const CrossShape& shape, const float* a, const float* z,
                     const float* x, float* y) = 0;
  // da = dy z, dz = dy a (summed over the columns if z_cols is 1). dx is dy. da
  // is written before dz, and a and z are read after that. So none of these
  // arrays may overlap.
  virtual void CrossBackward(const CrossShape& shape, const float* a,
                             const float* z, const float* dy, GradientOut da,
                             GradientOut dz) = 0;

  // y[r, i * b_cols + j] = a[r, i] * b[r, j].
  virtual void OuterProducts(size_t rows, size_t a_cols, size_t b_cols,
                             const float* a, const float* b, float* y) = 0;
  // da[r, i] = sum_j dy[r, i, j] b[r, j]; db[r, j] = sum_i dy[r, i, j] a[r, i].
  virtual void OuterProductsBackward(size_t rows, size_t a_cols, size_t b_cols,
                                     const float* a, const float* b,
                                     const float* dy, GradientOut da,
                                     GradientOut db) = 0;

  // y[e, i (i - 1) / 2 + j] = v[e, i] . v[e, j] for j < i.
  virtual void PairwiseDots(const VectorsShape& shape, const float* v,
                            float* y) = 0;
  virtual void PairwiseDotsBackward(const VectorsShape& shape, const float* v,
                                    const float* dy, Write write,
                                    float* dv) = 0;

  // With q, k and v the three parts of qkv: for each example and head
  // weights [num_vectors, num_vectors] = softmax over j of q_i . k_j /
  // sqrt(width), y_i = sum_j weights[i, j] v_j (Vaswani et al., Attention is
  // all you need, 2017). y [num_examples, num_vectors, heads, width]; weights
  // [num_examples, heads, num_vectors, num_vectors].
  virtual void Attention(const AttentionShape& shape, const float* qkv,
                         float* weights, float* y) = 0;
  virtual void AttentionBackward(const AttentionShape& shape, const float* qkv,
                                 const float* weights, const float* dy,
                                 Write write, float* dqkv) = 0;

  // y[n, c, r] = x[n, r, c].
  virtual void Transpose(size_t num, size_t rows, size_t cols, const float* x,
                         Write write, float* y) = 0;
  // y[n, c] = sum_r x[n, r, c].
  virtual void SumRows(size_t num, size_t rows, size_t cols, const float* x,
                       float* y) = 0;
  // dx[n, r, c] = dy[n, c].
  virtual void SumRowsBackward(size_t num, size_t rows, size_t cols,
                               const float* dy, Write write, float* dx) = 0;

  // y[e, i, c] = x[e, i] * v[i, c].
  virtual void ScaleVectors(const VectorsShape& shape, const float* x,
                            const float* v, float* y) = 0;
  // dv[i, c] = sum_e x[e, i] dy[e, i, c]; dx[e, i] = dy[e, i] . v[i].
  virtual void ScaleVectorsBackward(const VectorsShape& shape, const float* x,
                                    const float* v, const float* dy,
                                    GradientOut dx, GradientOut dv) = 0;

  // mean = sum / count and variance = max(squares / count, 0). They are 0 and 1
  // where the count is not above 0.
  virtual void NormMoments(size_t cols, const NormSums& sums, float* mean,
                           float* variance) = 0;
  // count = decay count + rows, sum = decay sum + sum_r x[r], squares = decay
  // squares + sum_r (x[r] - mean)^2. The mean is that of the sums before this
  // call, or the mean of x where the count was not above 0. Without rows
  // nothing changes.
  virtual void LearnNorm(size_t rows, size_t cols, float decay, const float* x,
                         const NormSums& sums) = 0;
  // y[r, c] = (x[r, c] - mean[c]) / sqrt(variance[c] + epsilon); a null mean
  // stands for 0. With a null mean, it also computes the gradient: x is dy
  // then.
  virtual void Standardize(size_t rows, size_t cols, float epsilon,
                           const float* mean, const float* variance,
                           const float* x, Write write, float* y) = 0;
};

}  // namespace oarlock::nn

#endif  // OARLOCK_NN_INTERACTION_OPERATIONS_H_
