// Kernels that sum: rows, columns, losses, second-order terms. The order of
// every sum depends only on the sizes, so that a repeated run gives the same
// bits.

#ifndef OARLOCK_NN_CUDA_KERNELS_REDUCTION_KERNELS_H_
#define OARLOCK_NN_CUDA_KERNELS_REDUCTION_KERNELS_H_

#include <cmath>
#include <cstddef>
#include <cstdint>

#include "nn/cuda/kernels/device_code.h"
#include "nn/operation.h"

namespace oarlock::nn::cuda {
inline namespace OARLOCK_KERNEL_SIDE {

// y[r] = sum of row r of x [rows, cols]; a block for each row.
struct SumColumnsKernel {
  static constexpr unsigned kThreads = 32;
  size_t rows;
  size_t cols;
  const float* x;
  float* y;
  size_t blocks() const { return rows; }
  OARLOCK_DEVICE void operator()(const Block& block) const {
    OARLOCK_SHARED float sums[kThreads];
    const float* row = x + block.index() * cols;
    SumOfTerms<kThreads>(
        block, 0, cols, [&](size_t c) { return row[c]; }, sums);
    block.ForThreads([&](unsigned t) {
      if (t == 0) y[block.index()] = sums[0];
    });
  }
};

// The first of two kernels that sum Term::operator()(row, column) over the rows
// of each column: partials[chunk, column] is the sum of kChunkRows rows.
template <typename Term>
struct ColumnPartials {
  static constexpr unsigned kThreads = 256;
  static constexpr unsigned kLanes = 8;  // rows at a time
  static constexpr unsigned kColumns = kThreads / kLanes;
  static constexpr size_t kChunkRows = 128;
  size_t rows;
  size_t cols;
  Term term;
  float* partials;

  static size_t Chunks(size_t rows) { return BlocksFor(rows, kChunkRows); }
  size_t blocks() const { return Chunks(rows) * BlocksFor(cols, kColumns); }
  OARLOCK_DEVICE void operator()(const Block& block) const {
    OARLOCK_SHARED float sums[kThreads];
    const size_t tiles = (cols + kColumns - 1) / kColumns;
    const size_t chunk = block.index() / tiles;
    const size_t tile = block.index() % tiles;
    const size_t begin = chunk * kChunkRows;
    const size_t end = begin + kChunkRows < rows ? begin + kChunkRows : rows;
    block.ForThreads([&](unsigned t) {
      const size_t col = tile * kColumns + t % kColumns;
      float sum = 0;
      if (col < cols) {
        for (size_t r = begin + t / kColumns; r < end; r += kLanes) {
          sum += term(r, col);
        }
      }
      sums[t] = sum;
    });
    block.ForThreads([&](unsigned t) {
      const size_t col = tile * kColumns + t;
      if (t >= kColumns || col >= cols) return;
      float sum = 0;
      for (unsigned lane = 0; lane < kLanes; ++lane) {
        sum += sums[lane * kColumns + t];
      }
      partials[chunk * cols + col] = sum;
    });
  }
};

// The second kernel: out[c] = factor * the sum of column c of partials [chunks,
// count].
struct SumPartialsBody {
  size_t count;
  size_t chunks;
  double factor;
  Write write;
  const float* partials;
  float* out;
  OARLOCK_DEVICE void operator()(size_t c) const {
    double sum = 0;
    for (size_t i = 0; i < chunks; ++i) sum += partials[i * count + c];
    sum *= factor;
    if (write == Write::kAdd) sum += out[c];
    out[c] = static_cast<float>(sum);
  }
};

// The term of a bias's gradient. It also masks dy by the activation.
struct BiasGradientTerm {
  size_t cols;
  Activation activation;
  const float* y;
  float* dy;
  OARLOCK_DEVICE float operator()(size_t row, size_t col) const {
    const size_t i = row * cols + col;
    if (activation == Activation::kRelu && y[i] <= 0) dy[i] = 0;
    return dy[i];
  }
};

// sums[e, c] = sum_s v[e, s, c]; y[e] = 1/2 sum over c of (sums^2 - sum of
// squares). A block for each example.
struct FmKernel {
  static constexpr unsigned kThreads = 32;
  size_t num_examples;
  size_t num_vectors;
  size_t width;
  const float* v;
  float* sums;
  float* y;
  size_t blocks() const { return num_examples; }
  OARLOCK_DEVICE void operator()(const Block& block) const {
    OARLOCK_SHARED float terms[kThreads];
    const size_t example = block.index();
    const float* vectors = v + example * num_vectors * width;
    block.ForThreads([&](unsigned t) {
      float term = 0;
      for (size_t c = t; c < width; c += kThreads) {
        float sum = 0, squares = 0;
        for (size_t s = 0; s < num_vectors; ++s) {
          const float x = vectors[s * width + c];
          sum += x;
          squares += x * x;
        }
        sums[example * width + c] = sum;
        term += (sum * sum - squares) / 2;
      }
      terms[t] = term;
    });
    SumOfBlock<kThreads>(block, terms);
    block.ForThreads([&](unsigned t) {
      if (t == 0) y[example] = terms[0];
    });
  }
};

// A loss: partials[block] = {the sum of Term's losses, the number of labels
// that are not legal}. There is a thread for each row.
template <typename Term>
struct LossPartials {
  static constexpr unsigned kThreads = 128;
  size_t rows;
  Term term;
  double* partials;
  size_t blocks() const { return BlocksFor(rows, kThreads); }
  OARLOCK_DEVICE void operator()(const Block& block) const {
    OARLOCK_SHARED double losses[kThreads];
    OARLOCK_SHARED double illegal[kThreads];
    block.ForThreads([&](unsigned t) {
      const size_t row = block.index() * kThreads + t;
      losses[t] = 0;
      illegal[t] = 0;
      if (row < rows) losses[t] = term(row, &illegal[t]);
    });
    SumOfBlock<kThreads>(block, losses);
    SumOfBlock<kThreads>(block, illegal);
    block.ForThreads([&](unsigned t) {
      if (t == 0) partials[2 * block.index()] = losses[0];
      if (t == 1) partials[2 * block.index() + 1] = illegal[0];
    });
  }
};

// out[0], out[1] = the sums of partials [count, 2].
struct SumLossKernel {
  static constexpr unsigned kThreads = 128;
  size_t count;
  const double* partials;
  double* out;
  size_t blocks() const { return 1; }
  OARLOCK_DEVICE void operator()(const Block& block) const {
    OARLOCK_SHARED double losses[kThreads];
    OARLOCK_SHARED double illegal[kThreads];
    SumOfTerms<kThreads>(
        block, 0, count, [&](size_t i) { return partials[2 * i]; }, losses);
    SumOfTerms<kThreads>(
        block, 0, count, [&](size_t i) { return partials[2 * i + 1]; },
        illegal);
    block.ForThreads([&](unsigned t) {
      if (t == 0) out[0] = losses[0];
      if (t == 1) out[1] = illegal[0];
    });
  }
};

struct SoftmaxTerm {
  size_t classes;
  const float* logits;
  const float* labels;
  float* probabilities;
  OARLOCK_DEVICE double operator()(size_t row, double* illegal) const {
    const float* x = logits + row * classes;
    float* p = probabilities + row * classes;
    const float label = labels[row];
    if (!(label >= 0 && label < static_cast<float>(classes))) {
      *illegal = 1;
      return 0;
    }
    float most = x[0];
    for (size_t c = 1; c < classes; ++c) most = x[c] > most ? x[c] : most;
    double sum = 0;
    for (size_t c = 0; c < classes; ++c) {
      sum += std::exp(static_cast<double>(x[c]) - most);
    }
    for (size_t c = 0; c < classes; ++c) {
      p[c] =
          static_cast<float>(std::exp(static_cast<double>(x[c]) - most) / sum);
    }
    return std::log(sum) + most - x[static_cast<size_t>(label)];
  }
};

struct SigmoidTerm {
  const float* logits;
  const float* labels;
  float* probabilities;
  OARLOCK_DEVICE double operator()(size_t row, double* illegal) const {
    const double x = logits[row];
    probabilities[row] = static_cast<float>(1 / (1 + std::exp(-x)));
    return (x < 0 ? 0 : x) - x * labels[row] +
           std::log1p(std::exp(x > 0 ? -x : x));
  }
};

}  // namespace OARLOCK_KERNEL_SIDE
}  // namespace oarlock::nn::cuda

#endif  // OARLOCK_NN_CUDA_KERNELS_REDUCTION_KERNELS_H_
