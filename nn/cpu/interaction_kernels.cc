#include "nn/cpu/interaction_kernels.h"

#include <algorithm>
#include <cmath>
#include <cstddef>

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "nn/cpu/interaction_kernels.cc"
#include "hwy/foreach_target.h"
// Highway compiles the following code once per instruction set.
#include "hwy/contrib/math/math-inl.h"
#include "hwy/highway.h"
#include "nn/cpu/lanes-inl.h"

HWY_BEFORE_NAMESPACE();
namespace oarlock::nn::interaction_kernels {
namespace HWY_NAMESPACE {
namespace {

namespace hn = hwy::HWY_NAMESPACE;
using oarlock::nn::HWY_NAMESPACE::ForLanes;
using oarlock::nn::HWY_NAMESPACE::Put;

// Adds up inner products of short vectors. The lanes are summed once, at the
// end.
class DotSum {
 public:
  HWY_INLINE DotSum()
      : fulls_(hn::Zero(hn::ScalableTag<float>())),
        fours_(hn::Zero(hn::CappedTag<float, 4>())) {}
  HWY_INLINE void Add(size_t size, const float* HWY_RESTRICT a,
                      const float* HWY_RESTRICT b) {
    size_t i = 0;
    for (; i + hn::Lanes(full_) <= size; i += hn::Lanes(full_)) {
      fulls_ =
          hn::MulAdd(hn::LoadU(full_, a + i), hn::LoadU(full_, b + i), fulls_);
    }
    for (; i + hn::Lanes(four_) <= size; i += hn::Lanes(four_)) {
      fours_ =
          hn::MulAdd(hn::LoadU(four_, a + i), hn::LoadU(four_, b + i), fours_);
    }
    for (; i < size; ++i) ones_ += a[i] * b[i];
  }
  HWY_INLINE float Sum() const {
    return hn::GetLane(hn::SumOfLanes(full_, fulls_)) +
           hn::GetLane(hn::SumOfLanes(four_, fours_)) + ones_;
  }

 private:
  const hn::ScalableTag<float> full_;
  const hn::CappedTag<float, 4> four_;
  hn::Vec<hn::ScalableTag<float>> fulls_;
  hn::Vec<hn::CappedTag<float, 4>> fours_;
  float ones_ = 0;
};

void FieldAware(const FieldAwareShape& shape, const float* HWY_RESTRICT v,
                float* HWY_RESTRICT y) {
  const size_t f = shape.fields, w = shape.width;
  for (size_t e = 0; e < shape.num_examples; ++e) {
    const float* HWY_RESTRICT all = v + e * f * f * w;
    DotSum sum;
    for (size_t i = 0; i < f; ++i) {
      for (size_t j = i + 1; j < f; ++j) {
        sum.Add(w, all + (i * f + j) * w, all + (j * f + i) * w);
      }
    }
    y[e] = sum.Sum();
  }
}

void FieldAwareBackward(const FieldAwareShape& shape,
                        const float* HWY_RESTRICT v,
                        const float* HWY_RESTRICT dy, Write write,
                        float* HWY_RESTRICT dv) {
  const bool add = write == Write::kAdd;
  const size_t f = shape.fields, w = shape.width;
  for (size_t e = 0; e < shape.num_examples; ++e) {
    const size_t begin = e * f * f * w;
    for (size_t i = 0; i < f; ++i) {
      for (size_t j = 0; j < f; ++j) {
        const float* HWY_RESTRICT other = v + begin + (j * f + i) * w;
        float* HWY_RESTRICT to = dv + begin + (i * f + j) * w;
        const float factor = i == j ? 0 : dy[e];
        ForLanes(w, [&](auto d, size_t c) HWY_ATTR {
          Put(d, add, hn::Mul(hn::Set(d, factor), hn::LoadU(d, other + c)),
              to + c);
        });
      }
    }
  }
}

void Cross(const CrossShape& shape, const float* HWY_RESTRICT a,
           const float* HWY_RESTRICT z, const float* HWY_RESTRICT x,
           float* HWY_RESTRICT y) {
  const bool spread = shape.z_cols == 1;
  for (size_t r = 0; r < shape.rows; ++r) {
    const size_t row = r * shape.cols;
    ForLanes(shape.cols, [&](auto d, size_t i) HWY_ATTR {
      const auto by = spread ? hn::Set(d, z[r]) : hn::LoadU(d, z + row + i);
      hn::StoreU(
          hn::MulAdd(hn::LoadU(d, a + row + i), by, hn::LoadU(d, x + row + i)),
          d, y + row + i);
    });
  }
}

void CrossBackward(const CrossShape& shape, const float* HWY_RESTRICT a,
                   const float* HWY_RESTRICT z, const float* HWY_RESTRICT dy,
                   GradientOut da, GradientOut dz) {
  const bool spread = shape.z_cols == 1;
  const bool add_a = da.write == Write::kAdd, add_z = dz.write == Write::kAdd;
  for (size_t r = 0; r < shape.rows; ++r) {
    const size_t row = r * shape.cols;
    float sum = 0;
    ForLanes(shape.cols, [&](auto d, size_t i) HWY_ATTR {
      const auto g = hn::LoadU(d, dy + row + i);
      if (da.data != nullptr) {
        const auto by = spread ? hn::Set(d, z[r]) : hn::LoadU(d, z + row + i);
        Put(d, add_a, hn::Mul(g, by), da.data + row + i);
      }
      if (dz.data == nullptr) return;
      const auto by_z = hn::Mul(g, hn::LoadU(d, a + row + i));
      if (spread) {
        sum += hn::GetLane(hn::SumOfLanes(d, by_z));
      } else {
        Put(d, add_z, by_z, dz.data + row + i);
      }
    });
    if (spread && dz.data != nullptr) {
      dz.data[r] = add_z ? dz.data[r] + sum : sum;
    }
  }
}

void OuterProducts(size_t rows, size_t a_cols, size_t b_cols,
                   const float* HWY_RESTRICT a, const float* HWY_RESTRICT b,
                   float* HWY_RESTRICT y) {
  for (size_t r = 0; r < rows; ++r) {
    const float* HWY_RESTRICT of_b = b + r * b_cols;
    for (size_t i = 0; i < a_cols; ++i, y += b_cols) {
      const float by = a[r * a_cols + i];
      ForLanes(b_cols, [&](auto d, size_t j) HWY_ATTR {
        hn::StoreU(hn::Mul(hn::Set(d, by), hn::LoadU(d, of_b + j)), d, y + j);
      });
    }
  }
}

void OuterProductsBackward(size_t rows, size_t a_cols, size_t b_cols,
                           const float* HWY_RESTRICT a,
                           const float* HWY_RESTRICT b,
                           const float* HWY_RESTRICT dy, GradientOut da,
                           GradientOut db) {
  for (size_t r = 0; r < rows; ++r) {
    const float* HWY_RESTRICT of_b = b + r * b_cols;
    for (size_t i = 0; i < a_cols; ++i, dy += b_cols) {
      if (da.data != nullptr) {
        DotSum sum;
        sum.Add(b_cols, dy, of_b);
        float* to = da.data + r * a_cols + i;
        *to = da.write == Write::kAdd ? *to + sum.Sum() : sum.Sum();
      }
      if (db.data == nullptr) continue;
      const bool add = db.write == Write::kAdd || i > 0;
      const float by = a[r * a_cols + i];
      ForLanes(b_cols, [&](auto d, size_t j) HWY_ATTR {
        Put(d, add, hn::Mul(hn::Set(d, by), hn::LoadU(d, dy + j)),
            db.data + r * b_cols + j);
      });
    }
  }
}

// Row c of `to` [width, num] becomes column c of `num` rows that are `stride`
// apart.
HWY_INLINE void Columns(size_t num, size_t width, size_t stride,
                        const float* HWY_RESTRICT from,
                        float* HWY_RESTRICT to) {
  for (size_t i = 0; i < num; ++i) {
    for (size_t c = 0; c < width; ++c) to[c * num + i] = from[i * stride + c];
  }
}

// y[j] = factor * a . (column j of `columns` [width, num]) for j < size.
HWY_INLINE void DotsWithColumns(size_t size, size_t width, size_t num,
                                float factor, const float* HWY_RESTRICT a,
                                const float* HWY_RESTRICT columns,
                                float* HWY_RESTRICT y) {
  ForLanes(size, [&](auto d, size_t j) HWY_ATTR {
    auto sum = hn::Zero(d);
    for (size_t c = 0; c < width; ++c) {
      sum = hn::MulAdd(hn::Set(d, a[c]), hn::LoadU(d, columns + c * num + j),
                       sum);
    }
    hn::StoreU(hn::Mul(sum, hn::Set(d, factor)), d, y + j);
  });
}

// y = the sum of weight(j) times row j of x, rows `stride` apart.
template <class Weight>
HWY_INLINE void SumOfRows(size_t num, size_t width, size_t stride,
                          Weight weight, const float* HWY_RESTRICT x, bool add,
                          float* HWY_RESTRICT y) {
  ForLanes(width, [&](auto d, size_t c) HWY_ATTR {
    auto sum = hn::Zero(d);
    for (size_t j = 0; j < num; ++j) {
      sum = hn::MulAdd(hn::Set(d, weight(j)), hn::LoadU(d, x + j * stride + c),
                       sum);
    }
    Put(d, add, sum, y + c);
  });
}

void PairwiseDots(const VectorsShape& shape, const float* HWY_RESTRICT v,
                  float* HWY_RESTRICT room, float* HWY_RESTRICT y) {
  const size_t n = shape.num_vectors, w = shape.width;
  for (size_t e = 0; e < shape.num_examples; ++e, v += n * w) {
    Columns(n, w, w, v, room);
    for (size_t i = 0; i < n; ++i) {
      DotsWithColumns(i, w, n, 1, v + i * w, room, y);
      y += i;
    }
  }
}

void PairwiseDotsBackward(const VectorsShape& shape,
                          const float* HWY_RESTRICT v,
                          const float* HWY_RESTRICT dy, Write write,
                          float* HWY_RESTRICT dv) {
  const bool add = write == Write::kAdd;
  const size_t n = shape.num_vectors, w = shape.width;
  for (size_t e = 0; e < shape.num_examples; ++e) {
    for (size_t i = 0; i < n; ++i) {
      const auto weight = [&](size_t j) -> float {
        if (i == j) return 0;
        return i > j ? dy[i * (i - 1) / 2 + j] : dy[j * (j - 1) / 2 + i];
      };
      SumOfRows(n, w, w, weight, v, add, dv + i * w);
    }
    v += n * w;
    dv += n * w;
    dy += n * (n - 1) / 2;
  }
}

// x = exp(x - max(x)) / the sum of exp(x - max(x)).
HWY_INLINE void Softmax(size_t size, float* HWY_RESTRICT x) {
  const float most = *std::max_element(x, x + size);
  float sum = 0;
  ForLanes(size, [&](auto d, size_t j) HWY_ATTR {
    const auto e = hn::Exp(d, hn::Sub(hn::LoadU(d, x + j), hn::Set(d, most)));
    hn::StoreU(e, d, x + j);
    sum += hn::GetLane(hn::SumOfLanes(d, e));
  });
  const float factor = 1 / sum;
  ForLanes(size, [&](auto d, size_t j) HWY_ATTR {
    hn::StoreU(hn::Mul(hn::LoadU(d, x + j), hn::Set(d, factor)), d, x + j);
  });
}

float ScoreScale(const AttentionShape& s) {
  return 1 / std::sqrt(static_cast<float>(s.width));
}

void Attention(const AttentionShape& s, const float* HWY_RESTRICT qkv,
               float* HWY_RESTRICT room, float* HWY_RESTRICT weights,
               float* HWY_RESTRICT y) {
  const size_t n = s.num_vectors, w = s.width;
  const size_t part = s.heads * w, stride = 3 * part;
  for (size_t e = 0; e < s.num_examples; ++e, qkv += n * stride) {
    for (size_t h = 0; h < s.heads; ++h) {
      const float* HWY_RESTRICT q = qkv + h * w;
      Columns(n, w, stride, q + part, room);
      for (size_t i = 0; i < n; ++i, weights += n) {
        DotsWithColumns(n, w, n, ScoreScale(s), q + i * stride, room, weights);
        Softmax(n, weights);
        SumOfRows(
            n, w, stride, [&](size_t j) { return weights[j]; }, q + 2 * part,
            /*add=*/false, y + i * part + h * w);
      }
    }
    y += n * part;
  }
}

void AttentionBackward(const AttentionShape& s, const float* HWY_RESTRICT qkv,
                       const float* HWY_RESTRICT weights,
                       const float* HWY_RESTRICT dy, float* HWY_RESTRICT room,
                       Write write, float* HWY_RESTRICT dqkv) {
  const bool add = write == Write::kAdd;
  const size_t n = s.num_vectors, w = s.width;
  const size_t part = s.heads * w, stride = 3 * part;
  float* HWY_RESTRICT values = room;
  float* HWY_RESTRICT ds = room + n * w;  // gradient by the scores, [n, n]
  const float scale = ScoreScale(s);
  for (size_t e = 0; e < s.num_examples; ++e) {
    for (size_t h = 0; h < s.heads; ++h, weights += n * n) {
      const float* HWY_RESTRICT q = qkv + h * w;
      const float* HWY_RESTRICT g = dy + h * w;
      float* HWY_RESTRICT dq = dqkv + h * w;
      Columns(n, w, stride, q + 2 * part, values);
      for (size_t i = 0; i < n; ++i) {
        const float* HWY_RESTRICT p = weights + i * n;
        float* HWY_RESTRICT by = ds + i * n;
        DotsWithColumns(n, w, n, 1, g + i * part, values, by);
        DotSum mean;
        mean.Add(n, p, by);
        const float less = mean.Sum();
        for (size_t j = 0; j < n; ++j) by[j] = p[j] * (by[j] - less) * scale;
        SumOfRows(
            n, w, stride, [&](size_t j) { return by[j]; }, q + part, add,
            dq + i * stride);
      }
      for (size_t j = 0; j < n; ++j) {
        SumOfRows(
            n, w, stride, [&](size_t i) { return ds[i * n + j]; }, q, add,
            dq + part + j * stride);
        SumOfRows(
            n, w, part, [&](size_t i) { return weights[i * n + j]; }, g, add,
            dq + 2 * part + j * stride);
      }
    }
    qkv += n * stride;
    dqkv += n * stride;
    dy += n * part;
  }
}

void SumRows(size_t num, size_t rows, size_t cols, const float* HWY_RESTRICT x,
             float* HWY_RESTRICT y) {
  for (size_t n = 0; n < num; ++n) {
    SumOfRows(
        rows, cols, cols, [](size_t) { return 1.0f; }, x + n * rows * cols,
        /*add=*/false, y + n * cols);
  }
}

void SumRowsBackward(size_t num, size_t rows, size_t cols,
                     const float* HWY_RESTRICT dy, Write write,
                     float* HWY_RESTRICT dx) {
  const bool add = write == Write::kAdd;
  for (size_t r = 0; r < num * rows; ++r) {
    const float* HWY_RESTRICT from = dy + r / rows * cols;
    ForLanes(cols, [&](auto d, size_t c) HWY_ATTR {
      Put(d, add, hn::LoadU(d, from + c), dx + r * cols + c);
    });
  }
}

void ScaleVectors(const VectorsShape& shape, const float* HWY_RESTRICT x,
                  const float* HWY_RESTRICT v, float* HWY_RESTRICT y) {
  const size_t n = shape.num_vectors, w = shape.width;
  for (size_t i = 0; i < shape.num_examples * n; ++i) {
    const float* HWY_RESTRICT from = v + i % n * w;
    ForLanes(w, [&](auto d, size_t c) HWY_ATTR {
      hn::StoreU(hn::Mul(hn::Set(d, x[i]), hn::LoadU(d, from + c)), d,
                 y + i * w + c);
    });
  }
}

void ScaleVectorsBackward(const VectorsShape& shape,
                          const float* HWY_RESTRICT x,
                          const float* HWY_RESTRICT v,
                          const float* HWY_RESTRICT dy, GradientOut dx,
                          GradientOut dv) {
  const size_t n = shape.num_vectors, w = shape.width;
  if (dx.data != nullptr) {
    for (size_t i = 0; i < shape.num_examples * n; ++i) {
      DotSum sum;
      sum.Add(w, dy + i * w, v + i % n * w);
      dx.data[i] = dx.write == Write::kAdd ? dx.data[i] + sum.Sum() : sum.Sum();
    }
  }
  if (dv.data == nullptr) return;
  for (size_t i = 0; i < n; ++i) {
    SumOfRows(
        shape.num_examples, w, n * w, [&](size_t e) { return x[e * n + i]; },
        dy + i * w, dv.write == Write::kAdd, dv.data + i * w);
  }
}

}  // namespace
}  // namespace HWY_NAMESPACE
}  // namespace oarlock::nn::interaction_kernels
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace oarlock::nn::interaction_kernels {

HWY_EXPORT(FieldAware);
HWY_EXPORT(FieldAwareBackward);
HWY_EXPORT(Cross);
HWY_EXPORT(CrossBackward);
HWY_EXPORT(OuterProducts);
HWY_EXPORT(OuterProductsBackward);
HWY_EXPORT(PairwiseDots);
HWY_EXPORT(PairwiseDotsBackward);
HWY_EXPORT(Attention);
HWY_EXPORT(AttentionBackward);
HWY_EXPORT(SumRows);
HWY_EXPORT(SumRowsBackward);
HWY_EXPORT(ScaleVectors);
HWY_EXPORT(ScaleVectorsBackward);

void FieldAware(const FieldAwareShape& shape, const float* v, float* y) {
  HWY_DYNAMIC_DISPATCH(FieldAware)(shape, v, y);
}
void FieldAwareBackward(const FieldAwareShape& shape, const float* v,
                        const float* dy, Write write, float* dv) {
  HWY_DYNAMIC_DISPATCH(FieldAwareBackward)(shape, v, dy, write, dv);
}
void Cross(const CrossShape& shape, const float* a, const float* z,
           const float* x, float* y) {
  HWY_DYNAMIC_DISPATCH(Cross)(shape, a, z, x, y);
}
void CrossBackward(const CrossShape& shape, const float* a, const float* z,
                   const float* dy, GradientOut da, GradientOut dz) {
  HWY_DYNAMIC_DISPATCH(CrossBackward)(shape, a, z, dy, da, dz);
}
void OuterProducts(size_t rows, size_t a_cols, size_t b_cols, const float* a,
                   const float* b, float* y) {
  HWY_DYNAMIC_DISPATCH(OuterProducts)(rows, a_cols, b_cols, a, b, y);
}
void OuterProductsBackward(size_t rows, size_t a_cols, size_t b_cols,
                           const float* a, const float* b, const float* dy,
                           GradientOut da, GradientOut db) {
  HWY_DYNAMIC_DISPATCH(OuterProductsBackward)
  (rows, a_cols, b_cols, a, b, dy, da, db);
}
void PairwiseDots(const VectorsShape& shape, const float* v, float* room,
                  float* y) {
  HWY_DYNAMIC_DISPATCH(PairwiseDots)(shape, v, room, y);
}
void PairwiseDotsBackward(const VectorsShape& shape, const float* v,
                          const float* dy, Write write, float* dv) {
  HWY_DYNAMIC_DISPATCH(PairwiseDotsBackward)(shape, v, dy, write, dv);
}
void Attention(const AttentionShape& shape, const float* qkv, float* room,
               float* weights, float* y) {
  HWY_DYNAMIC_DISPATCH(Attention)(shape, qkv, room, weights, y);
}
void AttentionBackward(const AttentionShape& shape, const float* qkv,
                       const float* weights, const float* dy, float* room,
                       Write write, float* dqkv) {
  HWY_DYNAMIC_DISPATCH(AttentionBackward)
  (shape, qkv, weights, dy, room, write, dqkv);
}
void SumRows(size_t num, size_t rows, size_t cols, const float* x, float* y) {
  HWY_DYNAMIC_DISPATCH(SumRows)(num, rows, cols, x, y);
}
void SumRowsBackward(size_t num, size_t rows, size_t cols, const float* dy,
                     Write write, float* dx) {
  HWY_DYNAMIC_DISPATCH(SumRowsBackward)(num, rows, cols, dy, write, dx);
}
void ScaleVectors(const VectorsShape& shape, const float* x, const float* v,
                  float* y) {
  HWY_DYNAMIC_DISPATCH(ScaleVectors)(shape, x, v, y);
}
void ScaleVectorsBackward(const VectorsShape& shape, const float* x,
                          const float* v, const float* dy, GradientOut dx,
                          GradientOut dv) {
  HWY_DYNAMIC_DISPATCH(ScaleVectorsBackward)(shape, x, v, dy, dx, dv);
}

}  // namespace oarlock::nn::interaction_kernels
#endif  // HWY_ONCE
