// Kernels of norms: batch norm, and norms by sums. Sums of columns use
// reduction_kernels.h.

#ifndef OARLOCK_NN_CUDA_KERNELS_NORM_KERNELS_H_
#define OARLOCK_NN_CUDA_KERNELS_NORM_KERNELS_H_

#include <cmath>
#include <cstddef>

#include "nn/cuda/kernels/device_code.h"
#include "nn/operation.h"

namespace oarlock::nn::cuda {
inline namespace OARLOCK_KERNEL_SIDE {

// ---- Batch norm ----

struct ValueTerm {
  size_t cols;
  const float* x;
  OARLOCK_DEVICE float operator()(size_t row, size_t col) const {
    return x[row * cols + col];
  }
};

struct SquaredDifferenceTerm {
  size_t cols;
  const float* x;
  const float* mean;
  OARLOCK_DEVICE float operator()(size_t row, size_t col) const {
    const float d = x[row * cols + col] - mean[col];
    return d * d;
  }
};

// The terms of each number for the backward pass of batch norm. statistics [2,
// cols] holds mean and variance.
struct NormTerms {
  size_t cols;
  float epsilon;
  Activation activation;
  const float* x;
  const float* y;
  const float* dy;
  const float* statistics;
  OARLOCK_DEVICE float Gradient(size_t i) const {
    return activation == Activation::kRelu && y[i] <= 0 ? 0 : dy[i];
  }
  OARLOCK_DEVICE float Deviation(size_t col) const {
    return std::sqrt(statistics[cols + col] + epsilon);
  }
  OARLOCK_DEVICE float Normalized(size_t i) const {
    const size_t col = i % cols;
    return (x[i] - statistics[col]) / Deviation(col);
  }
};

struct ShiftGradientTerm {
  NormTerms of;
  OARLOCK_DEVICE float operator()(size_t row, size_t col) const {
    return of.Gradient(row * of.cols + col);
  }
};

struct ScaleGradientTerm {
  NormTerms of;
  OARLOCK_DEVICE float operator()(size_t row, size_t col) const {
    const size_t i = row * of.cols + col;
    return of.Gradient(i) * of.Normalized(i);
  }
};

// running = momentum * running + (1 - momentum) * factor * batch's.
struct MoveRunningBody {
  size_t count;
  float momentum;
  double factor;
  const float* values;
  float* running;
  OARLOCK_DEVICE void operator()(size_t i) const {
    running[i] = static_cast<float>(static_cast<double>(momentum) * running[i] +
                                    (1 - static_cast<double>(momentum)) *
                                        factor * values[i]);
  }
};

struct NormalizeBody {
  size_t count;
  size_t cols;
  float epsilon;
  Activation activation;
  const float* x;
  const float* mean;
  const float* variance;
  const float* scale;
  const float* shift;
  const float* residual;  // or null
  float* y;
  OARLOCK_DEVICE void operator()(size_t i) const {
    const size_t c = i % cols;
    float value =
        (x[i] - mean[c]) / std::sqrt(variance[c] + epsilon) * scale[c] +
        shift[c];
    if (residual != nullptr) value += residual[i];
    y[i] = Activate(activation, value);
  }
};

// Writes dx first, then dresidual, which may be the same array. dshift and
// dscale are sums of this batch alone.
struct NormBackwardBody {
  size_t count;
  size_t rows;
  NormTerms of;
  const float* scale;
  const float* dshift;
  const float* dscale;
  Write dx_write;
  float* dx;  // or null
  Write dresidual_write;
  float* dresidual;  // or null
  OARLOCK_DEVICE void operator()(size_t i) const {
    const size_t c = i % of.cols;
    const float gradient = of.Gradient(i);
    if (dx != nullptr) {
      const float n = static_cast<float>(rows);
      Put(dx_write,
          scale[c] / of.Deviation(c) *
              (gradient - dshift[c] / n - of.Normalized(i) * dscale[c] / n),
          &dx[i]);
    }
    if (dresidual != nullptr) Put(dresidual_write, gradient, &dresidual[i]);
  }
};

// ---- Norms by sums ----

struct NormMomentsBody {
  size_t count;
  const float* examples;  // [1]
  const float* sum;
  const float* squares;
  float* mean;
  float* variance;
  OARLOCK_DEVICE void operator()(size_t c) const {
    const double n = *examples;
    const double of_squares = n > 0 ? squares[c] / n : 1;
    mean[c] = n > 0 ? static_cast<float>(sum[c] / n) : 0;
    variance[c] = of_squares < 0 ? 0 : static_cast<float>(of_squares);
  }
};

// The mean from which new distances are computed: the mean of the sums, or,
// where the count is not above 0, the mean of the `rows` new rows.
struct NormCentreBody {
  size_t count;
  size_t rows;
  const float* examples;
  const float* sum;
  const float* new_sum;
  float* centre;
  OARLOCK_DEVICE void operator()(size_t c) const {
    const double n = *examples;
    centre[c] = static_cast<float>(
        n > 0 ? sum[c] / n : new_sum[c] / static_cast<double>(rows));
  }
};

// to = decay * to + from.
struct DecayAndAddBody {
  size_t count;
  float decay;
  const float* from;
  float* to;
  OARLOCK_DEVICE void operator()(size_t c) const {
    to[c] = static_cast<float>(static_cast<double>(decay) * to[c] + from[c]);
  }
};

// *to = decay * *to + addend; one thread.
struct DecayAndCountBody {
  size_t count;
  float decay;
  float addend;
  float* to;
  OARLOCK_DEVICE void operator()(size_t i) const {
    to[i] = static_cast<float>(static_cast<double>(decay) * to[i] + addend);
  }
};

struct StandardizeBody {
  size_t count;
  size_t cols;
  float epsilon;
  Write write;
  const float* mean;  // or null for 0
  const float* variance;
  const float* x;
  float* y;
  OARLOCK_DEVICE void operator()(size_t i) const {
    const size_t c = i % cols;
    const float from = mean == nullptr ? 0 : mean[c];
    Put(write, (x[i] - from) / std::sqrt(variance[c] + epsilon), &y[i]);
  }
};

}  // namespace OARLOCK_KERNEL_SIDE
}  // namespace oarlock::nn::cuda

#endif  // OARLOCK_NN_CUDA_KERNELS_NORM_KERNELS_H_
