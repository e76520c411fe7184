// Kernels for layers that compute each number of an output independently.

#ifndef OARLOCK_NN_CUDA_KERNELS_ELEMENT_KERNELS_H_
#define OARLOCK_NN_CUDA_KERNELS_ELEMENT_KERNELS_H_

#include <cstddef>
#include <cstdint>

#include "base/random.h"
#include "nn/cuda/kernels/device_code.h"
#include "nn/operation.h"

namespace oarlock::nn::cuda {
inline namespace OARLOCK_KERNEL_SIDE {

struct FillBody {
  size_t count;
  float value;
  float* y;
  OARLOCK_DEVICE void operator()(size_t i) const { y[i] = value; }
};

// y = activation(y + bias), [count / cols, cols].
struct AddBiasBody {
  size_t count;
  size_t cols;
  Activation activation;
  const float* bias;
  float* y;
  OARLOCK_DEVICE void operator()(size_t i) const {
    y[i] = Activate(activation, y[i] + bias[i % cols]);
  }
};

struct ReluBody {
  size_t count;
  const float* x;
  float* y;
  OARLOCK_DEVICE void operator()(size_t i) const {
    y[i] = Activate(Activation::kRelu, x[i]);
  }
};

struct ReluBackwardBody {
  size_t count;
  Write write;
  const float* y;
  const float* dy;
  float* dx;
  OARLOCK_DEVICE void operator()(size_t i) const {
    Put(write, y[i] <= 0 ? 0 : dy[i], &dx[i]);
  }
};

struct DropoutBody {
  size_t count;
  float rate;
  uint64_t seed;
  Write write;
  const float* x;
  float* y;
  OARLOCK_DEVICE void operator()(size_t i) const {
    const bool kept = RandomUniform(seed, i) >= rate;
    Put(write, kept ? x[i] / (1 - rate) : 0, &y[i]);
  }
};

// count = rows * cols.
struct CopyColumnsBody {
  size_t count;
  size_t cols;
  size_t x_stride;
  size_t y_stride;
  Write write;
  const float* x;
  float* y;
  OARLOCK_DEVICE void operator()(size_t i) const {
    const size_t row = i / cols, col = i % cols;
    Put(write, x[row * x_stride + col], &y[row * y_stride + col]);
  }
};

struct SumColumnsBackwardBody {
  size_t count;
  size_t cols;
  Write write;
  const float* dy;
  float* dx;
  OARLOCK_DEVICE void operator()(size_t i) const {
    Put(write, dy[i / cols], &dx[i]);
  }
};

// The upper half of a float's bits, rounded to nearest, ties to even. NaN stays
// NaN.
OARLOCK_DEVICE inline uint16_t RoundedToBfloat16(float value) {
  union {
    float number;
    uint32_t bits;
  } x = {value};
  if (value != value) return static_cast<uint16_t>(x.bits >> 16 | 0x40);
  return static_cast<uint16_t>((x.bits + 0x7fff + (x.bits >> 16 & 1)) >> 16);
}

// y [count / y_stride, y_stride] = x [*, cols], rounded. The rows of x are
// x_stride apart; columns of y beyond cols are 0.
struct RoundBody {
  size_t count;
  size_t cols;
  size_t x_stride;
  size_t y_stride;
  const float* x;
  uint16_t* y;
  OARLOCK_DEVICE void operator()(size_t i) const {
    const size_t row = i / y_stride, col = i % y_stride;
    y[i] = col < cols ? RoundedToBfloat16(x[row * x_stride + col]) : 0;
  }
};

// dv[e, s, c] = dy[e] * (sums[e, c] - v[e, s, c]).
struct FmBackwardBody {
  size_t count;
  size_t num_vectors;
  size_t width;
  Write write;
  const float* v;
  const float* sums;
  const float* dy;
  float* dv;
  OARLOCK_DEVICE void operator()(size_t i) const {
    const size_t example = i / (num_vectors * width);
    const float sum = sums[example * width + i % width];
    Put(write, dy[example] * (sum - v[i]), &dv[i]);
  }
};

// dlogits = scale * (probabilities - one_hot(label)).
struct SoftmaxBackwardBody {
  size_t count;
  size_t classes;
  float scale;
  Write write;
  const float* probabilities;
  const float* labels;
  float* dlogits;
  OARLOCK_DEVICE void operator()(size_t i) const {
    const bool right = static_cast<size_t>(labels[i / classes]) == i % classes;
    Put(write, scale * (probabilities[i] - (right ? 1.0f : 0.0f)), &dlogits[i]);
  }
};

struct SigmoidBackwardBody {
  size_t count;
  float scale;
  Write write;
  const float* probabilities;
  const float* labels;
  float* dlogits;
  OARLOCK_DEVICE void operator()(size_t i) const {
    Put(write, scale * (probabilities[i] - labels[i]), &dlogits[i]);
  }
};

}  // namespace OARLOCK_KERNEL_SIDE
}  // namespace oarlock::nn::cuda

#endif  // OARLOCK_NN_CUDA_KERNELS_ELEMENT_KERNELS_H_
