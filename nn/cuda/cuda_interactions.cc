#include "nn/cuda/cuda_interactions.h"

namespace oarlock::nn::cuda {
namespace {

AttentionSizes SizesOf(const AttentionShape& shape) {
  return {shape.num_vectors, shape.heads, shape.width};
}

}  // namespace

CudaInteractions::CudaInteractions(Device* device, Numbers numbers)
    : math_(device, numbers), scratch_(device) {}

void CudaInteractions::FieldAware(const FieldAwareShape& shape, const float* v,
                                  float* y) {
  math_.device().Run(
      FieldAwareKernel{shape.num_examples, shape.fields, shape.width, v, y});
}

void CudaInteractions::FieldAwareBackward(const FieldAwareShape& shape,
                                          const float* v, const float* dy,
                                          Write write, float* dv) {
  math_.device().Run(ForEach<FieldAwareBackwardBody>{
      {shape.num_examples * shape.fields * shape.fields * shape.width,
       shape.fields, shape.width, write, v, dy, dv}});
}

void CudaInteractions::Cross(const CrossShape& shape, const float* a,
                             const float* z, const float* x, float* y) {
  math_.device().Run(ForEach<CrossBody>{
      {shape.rows * shape.cols, shape.cols, shape.z_cols, a, z, x, y}});
}

void CudaInteractions::CrossBackward(const CrossShape& shape, const float* a,
                                     const float* z, const float* dy,
                                     GradientOut da, GradientOut dz) {
  if (da.data != nullptr) {
    math_.device().Run(
        ForEach<CrossByABody>{{shape.rows * shape.cols, shape.cols,
                               shape.z_cols, da.write, z, dy, da.data}});
  }
  if (dz.data != nullptr) {
    math_.device().Run(
        ForEach<CrossByZBody>{{shape.rows * shape.z_cols, shape.cols,
                               shape.z_cols, dz.write, a, dy, dz.data}});
  }
}

void CudaInteractions::OuterProducts(size_t rows, size_t a_cols, size_t b_cols,
                                     const float* a, const float* b, float* y) {
  math_.device().Run(ForEach<OuterProductsBody>{
      {rows * a_cols * b_cols, a_cols, b_cols, a, b, y}});
}

void CudaInteractions::OuterProductsBackward(size_t rows, size_t a_cols,
                                             size_t b_cols, const float* a,
                                             const float* b, const float* dy,
                                             GradientOut da, GradientOut db) {
  if (da.data != nullptr) {
    math_.device().Run(ForEach<OuterProductsByABody>{
        {rows * a_cols, a_cols, b_cols, da.write, b, dy, da.data}});
  }
  if (db.data != nullptr) {
    math_.device().Run(ForEach<OuterProductsByBBody>{
        {rows * b_cols, a_cols, b_cols, db.write, a, dy, db.data}});
  }
}

void CudaInteractions::PairwiseDots(const VectorsShape& shape, const float* v,
                                    float* y) {
  math_.device().Run(PairwiseDotsKernel{shape.num_examples, shape.num_vectors,
                                        shape.width, v, y});
}

void CudaInteractions::PairwiseDotsBackward(const VectorsShape& shape,
                                            const float* v, const float* dy,
                                            Write write, float* dv) {
  math_.device().Run(ForEach<PairwiseDotsBackwardBody>{
      {shape.num_examples * shape.num_vectors * shape.width, shape.num_vectors,
       shape.width, write, v, dy, dv}});
}

void CudaInteractions::Attention(const AttentionShape& shape, const float* qkv,
                                 float* weights, float* y) {
  math_.device().Run(ForEach<AttentionBody>{
      {shape.num_examples * shape.heads * shape.num_vectors, SizesOf(shape),
       qkv, weights, y}});
}

void CudaInteractions::AttentionBackward(const AttentionShape& shape,
                                         const float* qkv, const float* weights,
                                         const float* dy, Write write,
                                         float* dqkv) {
  const size_t queries = shape.num_examples * shape.heads * shape.num_vectors;
  float* const dlogits = scratch_.Get<float>(queries * shape.num_vectors);
  math_.device().Run(ForEach<AttentionLogitsBody>{
      {queries, SizesOf(shape), qkv, weights, dy, dlogits}});
  math_.device().Run(
      ForEach<AttentionBackwardBody>{{queries * 3 * shape.width, SizesOf(shape),
                                      write, qkv, weights, dlogits, dy, dqkv}});
}

void CudaInteractions::Transpose(size_t num, size_t rows, size_t cols,
                                 const float* x, Write write, float* y) {
  math_.device().Run(
      ForEach<TransposeBody>{{num * rows * cols, rows, cols, write, x, y}});
}

void CudaInteractions::SumRows(size_t num, size_t rows, size_t cols,
                               const float* x, float* y) {
  math_.device().Run(ForEach<SumRowsBody>{{num * cols, rows, cols, x, y}});
}

void CudaInteractions::SumRowsBackward(size_t num, size_t rows, size_t cols,
                                       const float* dy, Write write,
                                       float* dx) {
  math_.device().Run(ForEach<SumRowsBackwardBody>{
      {num * rows * cols, rows, cols, write, dy, dx}});
}

void CudaInteractions::ScaleVectors(const VectorsShape& shape, const float* x,
                                    const float* v, float* y) {
  math_.device().Run(ForEach<ScaleVectorsBody>{
      {shape.num_examples * shape.num_vectors * shape.width, shape.num_vectors,
       shape.width, x, v, y}});
}

void CudaInteractions::ScaleVectorsBackward(const VectorsShape& shape,
                                            const float* x, const float* v,
                                            const float* dy, GradientOut dx,
                                            GradientOut dv) {
  const size_t n = shape.num_vectors, width = shape.width;
  if (dx.data != nullptr) {
    math_.device().Run(ForEach<ScaleVectorsByXBody>{
        {shape.num_examples * n, n, width, dx.write, v, dy, dx.data}});
  }
  if (dv.data != nullptr) {
    math_.SumRows(shape.num_examples, n * width,
                  ScaleVectorsTerm{n, width, x, dy}, 1, dv.write, dv.data);
  }
}

void CudaInteractions::NormMoments(size_t cols, const NormSums& sums,
                                   float* mean, float* variance) {
  math_.device().Run(ForEach<NormMomentsBody>{
      {cols, sums.count, sums.sum, sums.squares, mean, variance}});
}

void CudaInteractions::LearnNorm(size_t rows, size_t cols, float decay,
                                 const float* x, const NormSums& sums) {
  if (rows == 0) return;
  float* const new_sum = scratch_.Get<float>(3 * cols);
  float* const centre = new_sum + cols;
  float* const new_squares = centre + cols;
  math_.SumRows(rows, cols, ValueTerm{cols, x}, 1, Write::kOverwrite, new_sum);
  math_.device().Run(ForEach<NormCentreBody>{
      {cols, rows, sums.count, sums.sum, new_sum, centre}});
  math_.SumRows(rows, cols, SquaredDifferenceTerm{cols, x, centre}, 1,
                Write::kOverwrite, new_squares);
  math_.device().Run(
      ForEach<DecayAndAddBody>{{cols, decay, new_sum, sums.sum}});
  math_.device().Run(
      ForEach<DecayAndAddBody>{{cols, decay, new_squares, sums.squares}});
  math_.device().Run(ForEach<DecayAndCountBody>{
      {1, decay, static_cast<float>(rows), sums.count}});
}

void CudaInteractions::Standardize(size_t rows, size_t cols, float epsilon,
                                   const float* mean, const float* variance,
                                   const float* x, Write write, float* y) {
  math_.device().Run(ForEach<StandardizeBody>{
      {rows * cols, cols, epsilon, write, mean, variance, x, y}});
}

}  // namespace oarlock::nn::cuda
