// Kernels that move, sum and scale vectors of examples, with a thread for each
// number of an output. interaction_operations.h has the formulas.

#ifndef OARLOCK_NN_CUDA_KERNELS_VECTOR_KERNELS_H_
#define OARLOCK_NN_CUDA_KERNELS_VECTOR_KERNELS_H_

#include <cstddef>

#include "nn/cuda/kernels/device_code.h"
#include "nn/operation.h"

namespace oarlock::nn::cuda {
inline namespace OARLOCK_KERNEL_SIDE {

OARLOCK_DEVICE inline float DotOf(size_t size, const float* a, const float* b) {
  float sum = 0;
  for (size_t i = 0; i < size; ++i) sum += a[i] * b[i];
  return sum;
}

// ---- Moving, summing, scaling ----

// count = floats of y [num, cols, rows].
struct TransposeBody {
  size_t count;
  size_t rows;
  size_t cols;
  Write write;
  const float* x;
  float* y;
  OARLOCK_DEVICE void operator()(size_t at) const {
    const size_t r = at % rows, c = at / rows % cols, n = at / (rows * cols);
    Put(write, x[(n * rows + r) * cols + c], &y[at]);
  }
};

struct SumRowsBody {
  size_t count;
  size_t rows;
  size_t cols;
  const float* x;
  float* y;
  OARLOCK_DEVICE void operator()(size_t at) const {
    const size_t n = at / cols, c = at % cols;
    float sum = 0;
    for (size_t r = 0; r < rows; ++r) sum += x[(n * rows + r) * cols + c];
    y[at] = sum;
  }
};

struct SumRowsBackwardBody {
  size_t count;
  size_t rows;
  size_t cols;
  Write write;
  const float* dy;
  float* dx;
  OARLOCK_DEVICE void operator()(size_t at) const {
    Put(write, dy[at / (rows * cols) * cols + at % cols], &dx[at]);
  }
};

struct ScaleVectorsBody {
  size_t count;
  size_t num_vectors;
  size_t width;
  const float* x;
  const float* v;
  float* y;
  OARLOCK_DEVICE void operator()(size_t at) const {
    y[at] = x[at / width] * v[at % (num_vectors * width)];
  }
};

// count = examples * vectors.
struct ScaleVectorsByXBody {
  size_t count;
  size_t num_vectors;
  size_t width;
  Write write;
  const float* v;
  const float* dy;
  float* dx;
  OARLOCK_DEVICE void operator()(size_t at) const {
    Put(write, DotOf(width, dy + at * width, v + at % num_vectors * width),
        &dx[at]);
  }
};

// The term, for ColumnPartials over examples, of the gradient by a number of a
// vector.
struct ScaleVectorsTerm {
  size_t num_vectors;
  size_t width;
  const float* x;
  const float* dy;
  OARLOCK_DEVICE float operator()(size_t example, size_t col) const {
    return x[example * num_vectors + col / width] *
           dy[example * num_vectors * width + col];
  }
};

}  // namespace OARLOCK_KERNEL_SIDE
}  // namespace oarlock::nn::cuda

#endif  // OARLOCK_NN_CUDA_KERNELS_VECTOR_KERNELS_H_
