#include "nn/reference/reference_interactions.h"

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <vector>

namespace oarlock::nn {
namespace {

void Put(Write write, double value, float* to) {
  *to = static_cast<float>(write == Write::kAdd ? *to + value : value);
}

void PutAll(const std::vector<double>& values, GradientOut to) {
  if (to.data == nullptr) return;
  for (size_t i = 0; i < values.size(); ++i) {
    Put(to.write, values[i], &to.data[i]);
  }
}

double Dot(size_t size, const float* a, const float* b) {
  double sum = 0;
  for (size_t i = 0; i < size; ++i) sum += double{a[i]} * b[i];
  return sum;
}

// The offset of vector `vector` of a part (0: queries, 1: keys, 2: values).
size_t QkvAt(const AttentionShape& s, size_t example, size_t vector,
             size_t part, size_t head) {
  return (((example * s.num_vectors + vector) * 3 + part) * s.heads + head) *
         s.width;
}

}  // namespace

void ReferenceInteractions::FieldAware(const FieldAwareShape& shape,
                                       const float* v, float* y) {
  const size_t f = shape.fields, w = shape.width;
  for (size_t e = 0; e < shape.num_examples; ++e) {
    const float* all = v + e * f * f * w;
    double sum = 0;
    for (size_t i = 0; i < f; ++i) {
      for (size_t j = i + 1; j < f; ++j) {
        sum += Dot(w, all + (i * f + j) * w, all + (j * f + i) * w);
      }
    }
    y[e] = static_cast<float>(sum);
  }
}

void ReferenceInteractions::FieldAwareBackward(const FieldAwareShape& shape,
                                               const float* v, const float* dy,
                                               Write write, float* dv) {
  const size_t f = shape.fields, w = shape.width;
  for (size_t e = 0; e < shape.num_examples; ++e) {
    for (size_t i = 0; i < f; ++i) {
      for (size_t j = 0; j < f; ++j) {
        for (size_t c = 0; c < w; ++c) {
          const double other = v[((e * f + j) * f + i) * w + c];
          Put(write, i == j ? 0 : dy[e] * other,
              &dv[((e * f + i) * f + j) * w + c]);
        }
      }
    }
  }
}

void ReferenceInteractions::Cross(const CrossShape& shape, const float* a,
                                  const float* z, const float* x, float* y) {
  for (size_t i = 0; i < shape.rows * shape.cols; ++i) {
    const size_t at = shape.z_cols == 1 ? i / shape.cols : i;
    y[i] = static_cast<float>(double{a[i]} * z[at] + x[i]);
  }
}

void ReferenceInteractions::CrossBackward(const CrossShape& shape,
                                          const float* a, const float* z,
                                          const float* dy, GradientOut da,
                                          GradientOut dz) {
  const size_t size = shape.rows * shape.cols;
  std::vector<double> by_a(size), by_z(shape.rows * shape.z_cols);
  for (size_t i = 0; i < size; ++i) {
    const size_t at = shape.z_cols == 1 ? i / shape.cols : i;
    by_a[i] = double{dy[i]} * z[at];
    by_z[at] += double{dy[i]} * a[i];
  }
  PutAll(by_a, da);
  PutAll(by_z, dz);
}

void ReferenceInteractions::OuterProducts(size_t rows, size_t a_cols,
                                          size_t b_cols, const float* a,
                                          const float* b, float* y) {
  for (size_t r = 0; r < rows; ++r) {
    for (size_t i = 0; i < a_cols; ++i) {
      for (size_t j = 0; j < b_cols; ++j) {
        y[(r * a_cols + i) * b_cols + j] =
            a[r * a_cols + i] * b[r * b_cols + j];
      }
    }
  }
}

void ReferenceInteractions::OuterProductsBackward(
    size_t rows, size_t a_cols, size_t b_cols, const float* a, const float* b,
    const float* dy, GradientOut da, GradientOut db) {
  std::vector<double> by_a(rows * a_cols), by_b(rows * b_cols);
  for (size_t r = 0; r < rows; ++r) {
    for (size_t i = 0; i < a_cols; ++i) {
      for (size_t j = 0; j < b_cols; ++j) {
        const double g = dy[(r * a_cols + i) * b_cols + j];
        by_a[r * a_cols + i] += g * b[r * b_cols + j];
        by_b[r * b_cols + j] += g * a[r * a_cols + i];
      }
    }
  }
  PutAll(by_a, da);
  PutAll(by_b, db);
}

void ReferenceInteractions::PairwiseDots(const VectorsShape& shape,
                                         const float* v, float* y) {
  const size_t n = shape.num_vectors, w = shape.width;
  for (size_t e = 0; e < shape.num_examples; ++e) {
    for (size_t i = 0; i < n; ++i) {
      for (size_t j = 0; j < i; ++j) {
        *y++ = static_cast<float>(
            Dot(w, v + (e * n + i) * w, v + (e * n + j) * w));
      }
    }
  }
}

void ReferenceInteractions::PairwiseDotsBackward(const VectorsShape& shape,
                                                 const float* v,
                                                 const float* dy, Write write,
                                                 float* dv) {
  const size_t n = shape.num_vectors, w = shape.width;
  std::vector<double> sums(shape.num_examples * n * w);
  for (size_t e = 0; e < shape.num_examples; ++e) {
    for (size_t i = 0; i < n; ++i) {
      for (size_t j = 0; j < i; ++j, ++dy) {
        for (size_t c = 0; c < w; ++c) {
          const size_t of_i = (e * n + i) * w + c, of_j = (e * n + j) * w + c;
          sums[of_i] += double{*dy} * v[of_j];
          sums[of_j] += double{*dy} * v[of_i];
        }
      }
    }
  }
  PutAll(sums, {dv, write});
}

void ReferenceInteractions::Attention(const AttentionShape& s, const float* qkv,
                                      float* weights, float* y) {
  const size_t n = s.num_vectors;
  const double scale = 1 / std::sqrt(static_cast<double>(s.width));
  std::vector<double> p(n);
  for (size_t e = 0; e < s.num_examples; ++e) {
    for (size_t h = 0; h < s.heads; ++h) {
      for (size_t i = 0; i < n; ++i) {
        for (size_t j = 0; j < n; ++j) {
          p[j] = scale * Dot(s.width, qkv + QkvAt(s, e, i, 0, h),
                             qkv + QkvAt(s, e, j, 1, h));
        }
        const double most = *std::max_element(p.begin(), p.end());
        double sum = 0;
        for (double& x : p) sum += x = std::exp(x - most);
        for (size_t j = 0; j < n; ++j) {
          p[j] /= sum;
          weights[((e * s.heads + h) * n + i) * n + j] =
              static_cast<float>(p[j]);
        }
        for (size_t c = 0; c < s.width; ++c) {
          double out = 0;
          for (size_t j = 0; j < n; ++j) {
            out += p[j] * qkv[QkvAt(s, e, j, 2, h) + c];
          }
          y[((e * n + i) * s.heads + h) * s.width + c] =
              static_cast<float>(out);
        }
      }
    }
  }
}

void ReferenceInteractions::AttentionBackward(const AttentionShape& s,
                                              const float* qkv,
                                              const float* weights,
                                              const float* dy, Write write,
                                              float* dqkv) {
  const size_t n = s.num_vectors;
  const double scale = 1 / std::sqrt(static_cast<double>(s.width));
  std::vector<double> sums(s.num_examples * n * 3 * s.heads * s.width);
  std::vector<double> dp(n);
  for (size_t e = 0; e < s.num_examples; ++e) {
    for (size_t h = 0; h < s.heads; ++h) {
      for (size_t i = 0; i < n; ++i) {
        const float* p = weights + ((e * s.heads + h) * n + i) * n;
        const float* g = dy + ((e * n + i) * s.heads + h) * s.width;
        double mean = 0;
        for (size_t j = 0; j < n; ++j) {
          dp[j] = Dot(s.width, g, qkv + QkvAt(s, e, j, 2, h));
          mean += p[j] * dp[j];
        }
        for (size_t j = 0; j < n; ++j) {
          const double ds = p[j] * (dp[j] - mean) * scale;
          for (size_t c = 0; c < s.width; ++c) {
            sums[QkvAt(s, e, i, 0, h) + c] +=
                ds * qkv[QkvAt(s, e, j, 1, h) + c];
            sums[QkvAt(s, e, j, 1, h) + c] +=
                ds * qkv[QkvAt(s, e, i, 0, h) + c];
            sums[QkvAt(s, e, j, 2, h) + c] += double{p[j]} * g[c];
          }
        }
      }
    }
  }
  PutAll(sums, {dqkv, write});
}

void ReferenceInteractions::Transpose(size_t num, size_t rows, size_t cols,
                                      const float* x, Write write, float* y) {
  for (size_t n = 0; n < num; ++n) {
    for (size_t r = 0; r < rows; ++r) {
      for (size_t c = 0; c < cols; ++c) {
        Put(write, x[(n * rows + r) * cols + c], &y[(n * cols + c) * rows + r]);
      }
    }
  }
}

void ReferenceInteractions::SumRows(size_t num, size_t rows, size_t cols,
                                    const float* x, float* y) {
  for (size_t n = 0; n < num; ++n) {
    for (size_t c = 0; c < cols; ++c) {
      double sum = 0;
      for (size_t r = 0; r < rows; ++r) sum += x[(n * rows + r) * cols + c];
      y[n * cols + c] = static_cast<float>(sum);
    }
  }
}

void ReferenceInteractions::SumRowsBackward(size_t num, size_t rows,
                                            size_t cols, const float* dy,
                                            Write write, float* dx) {
  for (size_t i = 0; i < num * rows * cols; ++i) {
    Put(write, dy[i / (rows * cols) * cols + i % cols], &dx[i]);
  }
}

void ReferenceInteractions::ScaleVectors(const VectorsShape& shape,
                                         const float* x, const float* v,
                                         float* y) {
  const size_t n = shape.num_vectors, w = shape.width;
  for (size_t i = 0; i < shape.num_examples * n; ++i) {
    for (size_t c = 0; c < w; ++c) y[i * w + c] = x[i] * v[i % n * w + c];
  }
}

void ReferenceInteractions::ScaleVectorsBackward(const VectorsShape& shape,
                                                 const float* x, const float* v,
                                                 const float* dy,
                                                 GradientOut dx,
                                                 GradientOut dv) {
  const size_t n = shape.num_vectors, w = shape.width;
  std::vector<double> by_x(shape.num_examples * n), by_v(n * w);
  for (size_t i = 0; i < by_x.size(); ++i) {
    by_x[i] = Dot(w, dy + i * w, v + i % n * w);
    for (size_t c = 0; c < w; ++c) {
      by_v[i % n * w + c] += double{x[i]} * dy[i * w + c];
    }
  }
  PutAll(by_x, dx);
  PutAll(by_v, dv);
}

void ReferenceInteractions::NormMoments(size_t cols, const NormSums& sums,
                                        float* mean, float* variance) {
  const double count = *sums.count;
  for (size_t c = 0; c < cols; ++c) {
    mean[c] = count > 0 ? static_cast<float>(sums.sum[c] / count) : 0;
    variance[c] =
        count > 0 ? static_cast<float>(std::max(sums.squares[c] / count, 0.0))
                  : 1;
  }
}

void ReferenceInteractions::LearnNorm(size_t rows, size_t cols, float decay,
                                      const float* x, const NormSums& sums) {
  if (rows == 0) return;
  const double count = *sums.count;
  for (size_t c = 0; c < cols; ++c) {
    double sum = 0;
    for (size_t r = 0; r < rows; ++r) sum += x[r * cols + c];
    const double mean =
        count > 0 ? sums.sum[c] / count : sum / static_cast<double>(rows);
    double squares = 0;
    for (size_t r = 0; r < rows; ++r) {
      const double distance = x[r * cols + c] - mean;
      squares += distance * distance;
    }
    sums.sum[c] = static_cast<float>(double{decay} * sums.sum[c] + sum);
    sums.squares[c] =
        static_cast<float>(double{decay} * sums.squares[c] + squares);
  }
  *sums.count =
      static_cast<float>(double{decay} * count + static_cast<double>(rows));
}

void ReferenceInteractions::Standardize(size_t rows, size_t cols, float epsilon,
                                        const float* mean,
                                        const float* variance, const float* x,
                                        Write write, float* y) {
  for (size_t i = 0; i < rows * cols; ++i) {
    const size_t c = i % cols;
    const double from = mean == nullptr ? 0 : mean[c];
    Put(write, (x[i] - from) / std::sqrt(double{variance[c]} + epsilon), &y[i]);
  }
}

}  // namespace oarlock::nn
