// Kernels of scaled dot-product attention; interaction_operations.h has the
// formulas.

#ifndef OARLOCK_NN_CUDA_KERNELS_ATTENTION_KERNELS_H_
#define OARLOCK_NN_CUDA_KERNELS_ATTENTION_KERNELS_H_

#include <cmath>
#include <cstddef>

#include "nn/cuda/kernels/device_code.h"
#include "nn/cuda/kernels/vector_kernels.h"
#include "nn/operation.h"

namespace oarlock::nn::cuda {
inline namespace OARLOCK_KERNEL_SIDE {

struct AttentionSizes {
  size_t num_vectors;
  size_t heads;
  size_t width;
  // The offset of vector `vector` of a part (0: queries, 1: keys, 2: values).
  OARLOCK_DEVICE size_t At(size_t example, size_t vector, size_t part,
                           size_t head) const {
    return (((example * num_vectors + vector) * 3 + part) * heads + head) *
           width;
  }
};

// count = examples * heads * vectors. A thread computes the weights and the
// output of a query.
struct AttentionBody {
  size_t count;
  AttentionSizes s;
  const float* qkv;
  float* weights;
  float* y;
  OARLOCK_DEVICE void operator()(size_t at) const {
    const size_t n = s.num_vectors;
    const size_t i = at % n, head = at / n % s.heads;
    const size_t example = at / (n * s.heads);
    const float* query = qkv + s.At(example, i, 0, head);
    const float scale = 1 / std::sqrt(static_cast<float>(s.width));
    float* p = weights + at * n;
    float most = 0, sum = 0;
    for (size_t j = 0; j < n; ++j) {
      p[j] = scale * DotOf(s.width, query, qkv + s.At(example, j, 1, head));
      if (j == 0 || p[j] > most) most = p[j];
    }
    for (size_t j = 0; j < n; ++j) sum += p[j] = std::exp(p[j] - most);
    for (size_t j = 0; j < n; ++j) p[j] /= sum;
    float* out = y + ((example * n + i) * s.heads + head) * s.width;
    for (size_t c = 0; c < s.width; ++c) {
      float value = 0;
      for (size_t j = 0; j < n; ++j) {
        value += p[j] * qkv[s.At(example, j, 2, head) + c];
      }
      out[c] = value;
    }
  }
};

// The gradient by the scaled products of queries and keys, dlogits [examples,
// heads, vectors, vectors]; count as above.
struct AttentionLogitsBody {
  size_t count;
  AttentionSizes s;
  const float* qkv;
  const float* weights;
  const float* dy;
  float* dlogits;
  OARLOCK_DEVICE void operator()(size_t at) const {
    const size_t n = s.num_vectors;
    const size_t i = at % n, head = at / n % s.heads;
    const size_t example = at / (n * s.heads);
    const float* g = dy + ((example * n + i) * s.heads + head) * s.width;
    const float* p = weights + at * n;
    float* d = dlogits + at * n;
    const float scale = 1 / std::sqrt(static_cast<float>(s.width));
    float mean = 0;
    for (size_t j = 0; j < n; ++j) {
      d[j] = DotOf(s.width, g, qkv + s.At(example, j, 2, head));
      mean += p[j] * d[j];
    }
    for (size_t j = 0; j < n; ++j) d[j] = p[j] * (d[j] - mean) * scale;
  }
};

struct AttentionBackwardBody {
  size_t count;  // of qkv
  AttentionSizes s;
  Write write;
  const float* qkv;
  const float* weights;
  const float* dlogits;
  const float* dy;
  float* dqkv;
  OARLOCK_DEVICE void operator()(size_t at) const {
    const size_t n = s.num_vectors;
    const size_t c = at % s.width, head = at / s.width % s.heads;
    const size_t part = at / (s.width * s.heads) % 3;
    const size_t vector = at / (s.width * s.heads * 3) % n;
    const size_t example = at / (s.width * s.heads * 3 * n);
    const size_t square = (example * s.heads + head) * n * n;
    float sum = 0;
    for (size_t other = 0; other < n; ++other) {
      if (part == 0) {
        sum += dlogits[square + vector * n + other] *
               qkv[s.At(example, other, 1, head) + c];
      } else if (part == 1) {
        sum += dlogits[square + other * n + vector] *
               qkv[s.At(example, other, 0, head) + c];
      } else {
        sum += weights[square + other * n + vector] *
               dy[((example * n + other) * s.heads + head) * s.width + c];
      }
    }
    Put(write, sum, &dqkv[at]);
  }
};

}  // namespace OARLOCK_KERNEL_SIDE
}  // namespace oarlock::nn::cuda

#endif  // OARLOCK_NN_CUDA_KERNELS_ATTENTION_KERNELS_H_
