// Kernels for interactions of features; interaction_operations.h has the
// formulas. There is a thread for each number of an output, unless the comment
// says otherwise.

#ifndef OARLOCK_NN_CUDA_KERNELS_INTERACTION_KERNELS_H_
#define OARLOCK_NN_CUDA_KERNELS_INTERACTION_KERNELS_H_

#include <cstddef>

#include "nn/cuda/kernels/device_code.h"
#include "nn/cuda/kernels/vector_kernels.h"
#include "nn/operation.h"

namespace oarlock::nn::cuda {
inline namespace OARLOCK_KERNEL_SIDE {

// ---- Field-aware factorization machines ----

// A block for each example.
struct FieldAwareKernel {
  static constexpr unsigned kThreads = 128;
  size_t num_examples;
  size_t fields;
  size_t width;
  const float* v;
  float* y;
  size_t blocks() const { return num_examples; }
  OARLOCK_DEVICE void operator()(const Block& block) const {
    OARLOCK_SHARED float sums[kThreads];
    const float* all = v + block.index() * fields * fields * width;
    block.ForThreads([&](unsigned t) {
      float sum = 0;
      for (size_t pair = t; pair < fields * fields; pair += kThreads) {
        const size_t i = pair / fields, j = pair % fields;
        if (i >= j) continue;
        sum += DotOf(width, all + pair * width, all + (j * fields + i) * width);
      }
      sums[t] = sum;
    });
    SumOfBlock<kThreads>(block, sums);
    block.ForThreads([&](unsigned t) {
      if (t == 0) y[block.index()] = sums[0];
    });
  }
};

struct FieldAwareBackwardBody {
  size_t count;
  size_t fields;
  size_t width;
  Write write;
  const float* v;
  const float* dy;
  float* dv;
  OARLOCK_DEVICE void operator()(size_t at) const {
    const size_t c = at % width;
    const size_t j = at / width % fields;
    const size_t i = at / (width * fields) % fields;
    const size_t example = at / (width * fields * fields);
    const float other = v[((example * fields + j) * fields + i) * width + c];
    Put(write, i == j ? 0 : dy[example] * other, &dv[at]);
  }
};

// ---- Cross ----

struct CrossBody {
  size_t count;
  size_t cols;
  size_t z_cols;  // 1 or cols
  const float* a;
  const float* z;
  const float* x;
  float* y;
  OARLOCK_DEVICE void operator()(size_t i) const {
    y[i] = a[i] * z[z_cols == 1 ? i / cols : i] + x[i];
  }
};

struct CrossByABody {
  size_t count;
  size_t cols;
  size_t z_cols;
  Write write;
  const float* z;
  const float* dy;
  float* da;
  OARLOCK_DEVICE void operator()(size_t i) const {
    Put(write, dy[i] * z[z_cols == 1 ? i / cols : i], &da[i]);
  }
};

// count = rows * z_cols.
struct CrossByZBody {
  size_t count;
  size_t cols;
  size_t z_cols;
  Write write;
  const float* a;
  const float* dy;
  float* dz;
  OARLOCK_DEVICE void operator()(size_t i) const {
    const float sum =
        z_cols == 1 ? DotOf(cols, dy + i * cols, a + i * cols) : dy[i] * a[i];
    Put(write, sum, &dz[i]);
  }
};

// ---- Outer products ----

struct OuterProductsBody {
  size_t count;
  size_t a_cols;
  size_t b_cols;
  const float* a;
  const float* b;
  float* y;
  OARLOCK_DEVICE void operator()(size_t at) const {
    const size_t row = at / (a_cols * b_cols);
    y[at] =
        a[row * a_cols + at / b_cols % a_cols] * b[row * b_cols + at % b_cols];
  }
};

// count = rows * a_cols.
struct OuterProductsByABody {
  size_t count;
  size_t a_cols;
  size_t b_cols;
  Write write;
  const float* b;
  const float* dy;
  float* da;
  OARLOCK_DEVICE void operator()(size_t at) const {
    const size_t row = at / a_cols;
    Put(write, DotOf(b_cols, dy + at * b_cols, b + row * b_cols), &da[at]);
  }
};

// count = rows * b_cols.
struct OuterProductsByBBody {
  size_t count;
  size_t a_cols;
  size_t b_cols;
  Write write;
  const float* a;
  const float* dy;
  float* db;
  OARLOCK_DEVICE void operator()(size_t at) const {
    const size_t row = at / b_cols, j = at % b_cols;
    float sum = 0;
    for (size_t i = 0; i < a_cols; ++i) {
      sum += dy[(row * a_cols + i) * b_cols + j] * a[row * a_cols + i];
    }
    Put(write, sum, &db[at]);
  }
};

// ---- Inner products of all pairs ----

// A block for each example.
struct PairwiseDotsKernel {
  static constexpr unsigned kThreads = 128;
  size_t num_examples;
  size_t num_vectors;
  size_t width;
  const float* v;
  float* y;
  size_t blocks() const { return num_examples; }
  OARLOCK_DEVICE void operator()(const Block& block) const {
    const size_t n = num_vectors;
    const float* vectors = v + block.index() * n * width;
    float* dots = y + block.index() * (n * (n - 1) / 2);
    block.ForThreads([&](unsigned t) {
      for (size_t pair = t; pair < n * n; pair += kThreads) {
        const size_t i = pair / n, j = pair % n;
        if (j >= i) continue;
        dots[i * (i - 1) / 2 + j] =
            DotOf(width, vectors + i * width, vectors + j * width);
      }
    });
  }
};

struct PairwiseDotsBackwardBody {
  size_t count;
  size_t num_vectors;
  size_t width;
  Write write;
  const float* v;
  const float* dy;
  float* dv;
  OARLOCK_DEVICE void operator()(size_t at) const {
    const size_t n = num_vectors;
    const size_t c = at % width, i = at / width % n;
    const size_t example = at / (width * n);
    const float* vectors = v + example * n * width;
    const float* dots = dy + example * (n * (n - 1) / 2);
    float sum = 0;
    for (size_t j = 0; j < n; ++j) {
      if (j == i) continue;
      const size_t dot = j < i ? i * (i - 1) / 2 + j : j * (j - 1) / 2 + i;
      sum += dots[dot] * vectors[j * width + c];
    }
    Put(write, sum, &dv[at]);
  }
};

}  // namespace OARLOCK_KERNEL_SIDE
}  // namespace oarlock::nn::cuda

#endif  // OARLOCK_NN_CUDA_KERNELS_INTERACTION_KERNELS_H_
