#include "nn/cpu/cpu_backend.h"

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdint>

#include "base/check.h"
#include "base/random.h"
#include "nn/cpu/math_threads.h"
#include "nn/cpu/pooling_kernels.h"

namespace oarlock::nn {
namespace {

// Below this number of floats, a second thread costs more time than it saves.
constexpr size_t kLeastShared = 1 << 14;

float Into(Write write, float was, float value) {
  return write == Write::kAdd ? was + value : value;
}

// Row i of `out` is column i of `in` [rows, cols].
void TransposeInto(size_t rows, size_t cols, const float* in, size_t stride,
                   float* out) {
  for (size_t i = 0; i < cols; ++i) {
    for (size_t j = 0; j < rows; ++j) out[i * rows + j] = in[j * stride + i];
  }
}

}  // namespace

void CpuBackend::MatMul(size_t m, size_t n, size_t k, Matrix a, Matrix b,
                        Write write, float* c, size_t c_stride) {
  if (m == 0 || n == 0) return;
  if (k == 0) {
    if (write == Write::kAdd) return;
    for (size_t i = 0; i < m; ++i) Fill(n, 0, c + i * c_stride);
    return;
  }
  if (k <= cpu_kernels::kNarrow && !a.transposed) {
    if (b.transposed) {
      narrow_.resize(std::max(narrow_.size(), k * n));
      TransposeInto(n, k, b.data, b.stride, narrow_.data());
      b = {narrow_.data(), n, false};
    }
    cpu_kernels::NarrowOuter(m, n, k, a, b, write, c, c_stride);
  } else if (n <= cpu_kernels::kNarrow && !b.transposed && !a.transposed) {
    narrow_.resize(std::max(narrow_.size(), k * n));
    TransposeInto(k, n, b.data, b.stride, narrow_.data());
    cpu_kernels::NarrowInner(m, n, k, a, narrow_.data(), write, c, c_stride);
  } else if (n <= cpu_kernels::kNarrow && !b.transposed) {
    narrow_.resize(std::max(narrow_.size(), m * n));
    cpu_kernels::NarrowGradient(m, n, k, a, b, narrow_.data(), write, c,
                                c_stride);
  } else {
    WideMatMul(m, n, k, a, b, write, c, c_stride);
  }
}

void CpuBackend::AddBias(size_t rows, size_t cols, const float* bias,
                         Activation activation, float* y) {
  cpu_kernels::AddBias(rows, cols, bias, activation, y);
}

void CpuBackend::AddBiasBackward(size_t rows, size_t cols, const float* y,
                                 Activation activation, float* dy, Write write,
                                 float* dbias) {
  cpu_kernels::AddBiasBackward(rows, cols, y, activation, dy, write, dbias);
}

void CpuBackend::Relu(size_t size, const float* x, float* y) {
  cpu_kernels::Relu(size, x, y);
}

void CpuBackend::ReluBackward(size_t size, const float* y, const float* dy,
                              Write write, float* dx) {
  cpu_kernels::ReluBackward(size, y, dy, write, dx);
}

void CpuBackend::Dropout(size_t size, float rate, uint64_t seed, const float* x,
                         Write write, float* y) {
  const float factor = 1 / (1 - rate);
  for (size_t i = 0; i < size; ++i) {
    const float value = RandomUniform(seed, i) >= rate ? x[i] * factor : 0;
    y[i] = Into(write, y[i], value);
  }
}

void CpuBackend::CopyColumns(size_t rows, size_t cols, const float* x,
                             size_t x_stride, Write write, float* y,
                             size_t y_stride) {
  cpu_kernels::CopyColumns(rows, cols, x, x_stride, write, y, y_stride);
}

void CpuBackend::SumColumns(size_t rows, size_t cols, const float* x,
                            float* y) {
  cpu_kernels::SumColumns(rows, cols, x, y);
}

void CpuBackend::SumColumnsBackward(size_t rows, size_t cols, const float* dy,
                                    Write write, float* dx) {
  cpu_kernels::SumColumnsBackward(rows, cols, dy, write, dx);
}

void CpuBackend::SumBags(const RowBags& bags, const float* rows, float* out) {
  cpu_kernels::SumBags(bags, rows, out);
}

void CpuBackend::SumBagsBackward(const RowBags& bags, const float* dout,
                                 float* drows) {
  cpu_kernels::SumBagsBackward(bags, dout, drows);
}

void CpuBackend::FmSecondOrder(const FmShape& shape, const float* v,
                               float* sums, float* y) {
  cpu_kernels::FmSecondOrder(shape, v, sums, y);
}

void CpuBackend::FmSecondOrderBackward(const FmShape& shape, const float* v,
                                       const float* sums, const float* dy,
                                       Write write, float* dv) {
  cpu_kernels::FmSecondOrderBackward(shape, v, sums, dy, write, dv);
}

void CpuBackend::SoftmaxCrossEntropy(size_t rows, size_t classes,
                                     const float* logits, const float* labels,
                                     float* probabilities, double* loss_sum) {
  double loss = 0;
  for (size_t i = 0; i < rows; ++i) {
    const float* x = logits + i * classes;
    float* p = probabilities + i * classes;
    OARLOCK_CHECK(labels[i] >= 0 && labels[i] < static_cast<float>(classes));
    const float most = *std::max_element(x, x + classes);
    float sum = 0;
    for (size_t c = 0; c < classes; ++c) {
      p[c] = std::exp(x[c] - most);
      sum += p[c];
    }
    const float scale = 1 / sum;
    for (size_t c = 0; c < classes; ++c) p[c] *= scale;
    loss += std::log(sum) + (most - x[static_cast<size_t>(labels[i])]);
  }
  *loss_sum += loss;
}

void CpuBackend::SoftmaxCrossEntropyBackward(size_t rows, size_t classes,
                                             const float* probabilities,
                                             const float* labels, float scale,
                                             Write write, float* dlogits) {
  for (size_t i = 0; i < rows; ++i) {
    const size_t label = static_cast<size_t>(labels[i]);
    for (size_t c = 0; c < classes; ++c) {
      const size_t at = i * classes + c;
      const float target = c == label ? 1.0f : 0.0f;
      dlogits[at] =
          Into(write, dlogits[at], scale * (probabilities[at] - target));
    }
  }
}

void CpuBackend::SigmoidCrossEntropy(size_t size, const float* logits,
                                     const float* labels, float* probabilities,
                                     double* loss_sum) {
  double loss = 0;
  for (size_t i = 0; i < size; ++i) {
    const float x = logits[i];
    const float e = std::exp(-std::abs(x));  // never overflows
    probabilities[i] = (x >= 0 ? 1 : e) / (1 + e);
    loss += std::max(x, 0.0f) - x * labels[i] + std::log1p(e);
  }
  *loss_sum += loss;
}

void CpuBackend::SigmoidCrossEntropyBackward(size_t size,
                                             const float* probabilities,
                                             const float* labels, float scale,
                                             Write write, float* dlogits) {
  for (size_t i = 0; i < size; ++i) {
    dlogits[i] =
        Into(write, dlogits[i], scale * (probabilities[i] - labels[i]));
  }
}

int CpuBackend::ThreadsFor(size_t floats) const {
  return floats < kLeastShared ? 1 : threads_;
}

void CpuBackend::ForImages(
    const PoolingShape& shape,
    absl::FunctionRef<void(const PoolingShape& some, size_t x, size_t y)> fn) {
  const size_t in = shape.image.area() * shape.channels;
  const size_t out =
      NumPositions(shape.image, shape.window).area() * shape.channels;
  ParallelFor(ThreadsFor(shape.images * in), shape.images,
              [&](size_t begin, size_t end) {
                PoolingShape some = shape;
                some.images = end - begin;
                fn(some, begin * in, begin * out);
              });
}

void CpuBackend::MaxPool(const PoolingShape& shape, Activation activation,
                         const float* x, float* y, uint8_t* chosen) {
  ForImages(shape, [&](const PoolingShape& some, size_t in, size_t out) {
    pooling_kernels::MaxPool(some, activation, x + in, y + out, chosen + out);
  });
}

void CpuBackend::MaxPoolBackward(const PoolingShape& shape, const float* dy,
                                 const uint8_t* chosen, Write write,
                                 float* dx) {
  ForImages(shape, [&](const PoolingShape& some, size_t in, size_t out) {
    pooling_kernels::MaxPoolBackward(some, dy + out, chosen + out, write,
                                     dx + in);
  });
}

void CpuBackend::AveragePool(const PoolingShape& shape, const float* x,
                             float* y) {
  ForImages(shape, [&](const PoolingShape& some, size_t in, size_t out) {
    pooling_kernels::AveragePool(some, x + in, y + out);
  });
}

void CpuBackend::AveragePoolBackward(const PoolingShape& shape, const float* dy,
                                     Write write, float* dx) {
  ForImages(shape, [&](const PoolingShape& some, size_t in, size_t out) {
    pooling_kernels::AveragePoolBackward(some, dy + out, write, dx + in);
  });
}

batch_norm_kernels::Room CpuBackend::BatchNormRoom(size_t rows,
                                                   size_t channels) {
  constexpr size_t kParts = batch_norm_kernels::kParts;
  if (sums_.size() < kParts * 2 * channels) {
    sums_.resize(kParts * 2 * channels);
    parts_.resize(kParts * 2 * channels);
    columns_.resize(4 * channels);
  }
  return {sums_.data(), parts_.data(), columns_.data(),
          ThreadsFor(rows * channels)};
}

void CpuBackend::BatchNormTraining(const BatchNormArgs& args, float* y) {
  if (args.rows == 0) return;
  batch_norm_kernels::Training(args, BatchNormRoom(args.rows, args.channels),
                               y);
}

void CpuBackend::BatchNormInference(const BatchNormArgs& args, float* y) {
  batch_norm_kernels::Inference(args, BatchNormRoom(args.rows, args.channels),
                                y);
}

void CpuBackend::BatchNormBackward(const BatchNormArgs& args, const float* y,
                                   const BatchNormGradients& gradients) {
  if (args.rows > 0) {
    const batch_norm_kernels::Room room =
        BatchNormRoom(args.rows, args.channels);
    batch_norm_kernels::Backward(args, y, gradients, room);
  } else if (gradients.parameter_write == Write::kOverwrite) {
    Fill(args.channels, 0, gradients.dscale);
    Fill(args.channels, 0, gradients.dshift);
  }
}

void CpuBackend::ScaleBytes(size_t pixels, size_t channels,
                            const uint8_t* bytes, const ByteScale& scale,
                            float* y) {
  ParallelFor(ThreadsFor(pixels * channels), pixels,
              [&](size_t begin, size_t end) {
                pooling_kernels::ScaleBytes(end - begin, channels,
                                            bytes + begin * channels, scale,
                                            y + begin * channels);
              });
}

}  // namespace oarlock::nn
