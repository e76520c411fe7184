#include "nn/host_interactions.h"

#include <cstddef>
#include <deque>
#include <memory>
#include <utility>
#include <vector>

namespace oarlock::nn {

// Host copies of the arrays of one operation.
class HostInteractions::Copies {
 public:
  explicit Copies(MathBackend* device) : device_(device) {}
  // Copies the written arrays back to the device.
  ~Copies() {
    for (const Back& back : back_) {
      device_->CopyIn(back.from, back.floats * sizeof(float), back.to);
    }
  }
  Copies(const Copies&) = delete;
  Copies& operator=(const Copies&) = delete;

  const float* In(const float* x, size_t floats) {
    return x == nullptr ? nullptr : Copy(x, floats);
  }
  float* Out(float* y, size_t floats, Write write = Write::kAdd) {
    float* const host = write == Write::kAdd ? Copy(y, floats) : New(floats);
    back_.push_back({host, floats, y});
    return host;
  }
  GradientOut Out(GradientOut to, size_t floats) {
    if (to.data == nullptr) return to;
    return {Out(to.data, floats, to.write), to.write};
  }
  NormSums Out(const NormSums& sums, size_t cols) {
    return {Out(sums.count, 1), Out(sums.sum, cols), Out(sums.squares, cols)};
  }

 private:
  struct Back {
    const float* from;
    size_t floats;
    float* to;
  };
  float* New(size_t floats) { return arrays_.emplace_back(floats).data(); }
  float* Copy(const float* x, size_t floats) {
    float* const host = New(floats);
    device_->CopyOut(x, floats * sizeof(float), host);
    return host;
  }

  MathBackend* const device_;
  std::deque<std::vector<float>> arrays_;
  std::vector<Back> back_;
};

HostInteractions::HostInteractions(std::unique_ptr<MathBackend> host)
    : host_(std::move(host)) {}

void HostInteractions::FieldAware(const FieldAwareShape& shape, const float* v,
                                  float* y) {
  Copies c(this);
  const size_t n = shape.num_examples;
  host_->FieldAware(shape,
                    c.In(v, n * shape.fields * shape.fields * shape.width),
                    c.Out(y, n, Write::kOverwrite));
}

void HostInteractions::FieldAwareBackward(const FieldAwareShape& shape,
                                          const float* v, const float* dy,
                                          Write write, float* dv) {
  Copies c(this);
  const size_t n = shape.num_examples;
  const size_t size = n * shape.fields * shape.fields * shape.width;
  host_->FieldAwareBackward(shape, c.In(v, size), c.In(dy, n), write,
                            c.Out(dv, size, write));
}

void HostInteractions::Cross(const CrossShape& shape, const float* a,
                             const float* z, const float* x, float* y) {
  Copies c(this);
  const size_t size = shape.rows * shape.cols;
  host_->Cross(shape, c.In(a, size), c.In(z, shape.rows * shape.z_cols),
               c.In(x, size), c.Out(y, size, Write::kOverwrite));
}

void HostInteractions::CrossBackward(const CrossShape& shape, const float* a,
                                     const float* z, const float* dy,
                                     GradientOut da, GradientOut dz) {
  const size_t size = shape.rows * shape.cols;
  const size_t z_size = shape.rows * shape.z_cols;
  // The two gradients are computed one after the other: both may be the same
  // array.
  {
    Copies c(this);
    host_->CrossBackward(shape, c.In(a, size), c.In(z, z_size), c.In(dy, size),
                         c.Out(da, size), {});
  }
  Copies c(this);
  host_->CrossBackward(shape, c.In(a, size), c.In(z, z_size), c.In(dy, size),
                       {}, c.Out(dz, z_size));
}

void HostInteractions::OuterProducts(size_t rows, size_t a_cols, size_t b_cols,
                                     const float* a, const float* b, float* y) {
  Copies c(this);
  host_->OuterProducts(rows, a_cols, b_cols, c.In(a, rows * a_cols),
                       c.In(b, rows * b_cols),
                       c.Out(y, rows * a_cols * b_cols, Write::kOverwrite));
}

void HostInteractions::OuterProductsBackward(size_t rows, size_t a_cols,
                                             size_t b_cols, const float* a,
                                             const float* b, const float* dy,
                                             GradientOut da, GradientOut db) {
  Copies c(this);
  host_->OuterProductsBackward(
      rows, a_cols, b_cols, c.In(a, rows * a_cols), c.In(b, rows * b_cols),
      c.In(dy, rows * a_cols * b_cols), c.Out(da, rows * a_cols),
      c.Out(db, rows * b_cols));
}

void HostInteractions::PairwiseDots(const VectorsShape& shape, const float* v,
                                    float* y) {
  Copies c(this);
  const size_t n = shape.num_vectors;
  host_->PairwiseDots(
      shape, c.In(v, shape.num_examples * n * shape.width),
      c.Out(y, shape.num_examples * n * (n - 1) / 2, Write::kOverwrite));
}

void HostInteractions::PairwiseDotsBackward(const VectorsShape& shape,
                                            const float* v, const float* dy,
                                            Write write, float* dv) {
  Copies c(this);
  const size_t n = shape.num_vectors;
  const size_t size = shape.num_examples * n * shape.width;
  host_->PairwiseDotsBackward(shape, c.In(v, size),
                              c.In(dy, shape.num_examples * n * (n - 1) / 2),
                              write, c.Out(dv, size, write));
}

void HostInteractions::Attention(const AttentionShape& shape, const float* qkv,
                                 float* weights, float* y) {
  Copies c(this);
  const size_t n = shape.num_vectors, e = shape.num_examples;
  const size_t size = e * n * shape.heads * shape.width;
  host_->Attention(shape, c.In(qkv, 3 * size),
                   c.Out(weights, e * shape.heads * n * n, Write::kOverwrite),
                   c.Out(y, size, Write::kOverwrite));
}

void HostInteractions::AttentionBackward(const AttentionShape& shape,
                                         const float* qkv, const float* weights,
                                         const float* dy, Write write,
                                         float* dqkv) {
  Copies c(this);
  const size_t n = shape.num_vectors, e = shape.num_examples;
  const size_t size = e * n * shape.heads * shape.width;
  host_->AttentionBackward(shape, c.In(qkv, 3 * size),
                           c.In(weights, e * shape.heads * n * n),
                           c.In(dy, size), write, c.Out(dqkv, 3 * size, write));
}

void HostInteractions::Transpose(size_t num, size_t rows, size_t cols,
                                 const float* x, Write write, float* y) {
  Copies c(this);
  const size_t size = num * rows * cols;
  host_->Transpose(num, rows, cols, c.In(x, size), write,
                   c.Out(y, size, write));
}

void HostInteractions::SumRows(size_t num, size_t rows, size_t cols,
                               const float* x, float* y) {
  Copies c(this);
  host_->SumRows(num, rows, cols, c.In(x, num * rows * cols),
                 c.Out(y, num * cols, Write::kOverwrite));
}

void HostInteractions::SumRowsBackward(size_t num, size_t rows, size_t cols,
                                       const float* dy, Write write,
                                       float* dx) {
  Copies c(this);
  host_->SumRowsBackward(num, rows, cols, c.In(dy, num * cols), write,
                         c.Out(dx, num * rows * cols, write));
}

void HostInteractions::ScaleVectors(const VectorsShape& shape, const float* x,
                                    const float* v, float* y) {
  Copies c(this);
  const size_t e = shape.num_examples, n = shape.num_vectors;
  host_->ScaleVectors(shape, c.In(x, e * n), c.In(v, n * shape.width),
                      c.Out(y, e * n * shape.width, Write::kOverwrite));
}

void HostInteractions::ScaleVectorsBackward(const VectorsShape& shape,
                                            const float* x, const float* v,
                                            const float* dy, GradientOut dx,
                                            GradientOut dv) {
  Copies c(this);
  const size_t e = shape.num_examples, n = shape.num_vectors;
  host_->ScaleVectorsBackward(shape, c.In(x, e * n), c.In(v, n * shape.width),
                              c.In(dy, e * n * shape.width), c.Out(dx, e * n),
                              c.Out(dv, n * shape.width));
}

void HostInteractions::NormMoments(size_t cols, const NormSums& sums,
                                   float* mean, float* variance) {
  Copies c(this);
  host_->NormMoments(cols, c.Out(sums, cols),
                     c.Out(mean, cols, Write::kOverwrite),
                     c.Out(variance, cols, Write::kOverwrite));
}

void HostInteractions::LearnNorm(size_t rows, size_t cols, float decay,
                                 const float* x, const NormSums& sums) {
  Copies c(this);
  host_->LearnNorm(rows, cols, decay, c.In(x, rows * cols), c.Out(sums, cols));
}

void HostInteractions::Standardize(size_t rows, size_t cols, float epsilon,
                                   const float* mean, const float* variance,
                                   const float* x, Write write, float* y) {
  Copies c(this);
  host_->Standardize(rows, cols, epsilon, c.In(mean, cols),
                     c.In(variance, cols), c.In(x, rows * cols), write,
                     c.Out(y, rows * cols, write));
}

}  // namespace oarlock::nn
