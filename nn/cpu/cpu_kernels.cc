#include "nn/cpu/cpu_kernels.h"

#include <cstddef>
#include <cstdint>
#include <vector>

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "nn/cpu/cpu_kernels.cc"
#include "hwy/foreach_target.h"
// Highway compiles the following code once per instruction set.
#include "hwy/highway.h"
#include "nn/cpu/lanes-inl.h"

HWY_BEFORE_NAMESPACE();
namespace oarlock::nn::cpu_kernels {
namespace HWY_NAMESPACE {
namespace {

namespace hn = hwy::HWY_NAMESPACE;
using oarlock::nn::HWY_NAMESPACE::ForLanes;
using oarlock::nn::HWY_NAMESPACE::Put;
using oarlock::nn::HWY_NAMESPACE::Rectified;
using oarlock::nn::HWY_NAMESPACE::RectifiedGradient;

void NarrowInner(size_t m, size_t n, size_t k, Matrix a,
                 const float* HWY_RESTRICT columns, Write write,
                 float* HWY_RESTRICT c, size_t c_stride) {
  const hn::ScalableTag<float> d;
  const size_t full = k / hn::Lanes(d) * hn::Lanes(d);
  for (size_t r = 0; r < m; ++r) {
    const float* HWY_RESTRICT row = a.data + r * a.stride;
    for (size_t j = 0; j < n; ++j) {
      const float* HWY_RESTRICT column = columns + j * k;
      auto sums = hn::Zero(d);
      for (size_t i = 0; i < full; i += hn::Lanes(d)) {
        sums =
            hn::MulAdd(hn::LoadU(d, row + i), hn::LoadU(d, column + i), sums);
      }
      float sum = hn::GetLane(hn::SumOfLanes(d, sums));
      for (size_t i = full; i < k; ++i) sum += row[i] * column[i];
      float* to = c + r * c_stride + j;
      *to = write == Write::kAdd ? *to + sum : sum;
    }
  }
}

void NarrowOuter(size_t m, size_t n, size_t k, Matrix a, Matrix b, Write write,
                 float* HWY_RESTRICT c, size_t c_stride) {
  const bool add = write == Write::kAdd;
  for (size_t r = 0; r < m; ++r) {
    const float* HWY_RESTRICT row = a.data + r * a.stride;
    float* HWY_RESTRICT to = c + r * c_stride;
    ForLanes(n, [&](auto d, size_t i) HWY_ATTR {
      auto sum = add ? hn::LoadU(d, to + i) : hn::Zero(d);
      for (size_t l = 0; l < k; ++l) {
        sum = hn::MulAdd(hn::Set(d, row[l]),
                         hn::LoadU(d, b.data + l * b.stride + i), sum);
      }
      hn::StoreU(sum, d, to + i);
    });
  }
}

// Adds rows [r, r + kRows) to the sums of NarrowGradient.
template <size_t kRows>
HWY_INLINE void AddNarrowGradient(size_t r, size_t m, size_t n, Matrix a,
                                  Matrix b, float* HWY_RESTRICT sums) {
  for (size_t j = 0; j < n; ++j) {
    float* HWY_RESTRICT to = sums + j * m;
    ForLanes(m, [&](auto d, size_t i) HWY_ATTR {
      auto sum = hn::LoadU(d, to + i);
      for (size_t l = r; l < r + kRows; ++l) {
        sum = hn::MulAdd(hn::LoadU(d, a.data + l * a.stride + i),
                         hn::Set(d, b.data[l * b.stride + j]), sum);
      }
      hn::StoreU(sum, d, to + i);
    });
  }
}

void NarrowGradient(size_t m, size_t n, size_t k, Matrix a, Matrix b,
                    float* HWY_RESTRICT sums, Write write,
                    float* HWY_RESTRICT c, size_t c_stride) {
  ForLanes(m * n, [&](auto d, size_t i)
                      HWY_ATTR { hn::StoreU(hn::Zero(d), d, sums + i); });
  constexpr size_t kBlock = 8;
  size_t r = 0;
  for (; r + kBlock <= k; r += kBlock) {
    AddNarrowGradient<kBlock>(r, m, n, a, b, sums);
  }
  for (; r < k; ++r) AddNarrowGradient<1>(r, m, n, a, b, sums);
  for (size_t i = 0; i < m; ++i) {
    for (size_t j = 0; j < n; ++j) {
      float* to = c + i * c_stride + j;
      *to = write == Write::kAdd ? *to + sums[j * m + i] : sums[j * m + i];
    }
  }
}

void AddBias(size_t rows, size_t cols, const float* HWY_RESTRICT bias,
             Activation activation, float* HWY_RESTRICT y) {
  const bool relu = activation == Activation::kRelu;
  for (size_t r = 0; r < rows; ++r) {
    float* HWY_RESTRICT row = y + r * cols;
    ForLanes(cols, [&](auto d, size_t i) HWY_ATTR {
      auto x = hn::Add(hn::LoadU(d, row + i), hn::LoadU(d, bias + i));
      if (relu) x = Rectified(d, x);
      hn::StoreU(x, d, row + i);
    });
  }
}

// Rounds to the nearest bfloat16, ties to even. NaN stays NaN.
template <class D>
HWY_INLINE void StoreRounded(D d, hn::Vec<D> value, uint16_t* to) {
  const hn::RebindToUnsigned<D> bits_tag;
  const auto bits = hn::BitCast(bits_tag, value);
  const auto high = hn::ShiftRight<16>(bits);
  const auto odd = hn::And(high, hn::Set(bits_tag, 1));
  const auto half = hn::Add(odd, hn::Set(bits_tag, 0x7fff));
  const auto rounded = hn::ShiftRight<16>(hn::Add(bits, half));
  const auto quiet = hn::Or(high, hn::Set(bits_tag, 0x40));
  const auto is_nan = hn::RebindMask(bits_tag, hn::IsNaN(value));
  const auto chosen = hn::IfThenElse(is_nan, quiet, rounded);
  const hn::Rebind<uint16_t, D> to_tag;
  // Values are below 2^16, so DemoteTo never saturates.
  const auto narrow =
      hn::DemoteTo(to_tag, hn::BitCast(hn::RebindToSigned<D>(), chosen));
  hn::StoreU(narrow, to_tag, to);
}

void RoundToBfloat16(size_t rows, size_t cols, const float* HWY_RESTRICT x,
                     size_t x_stride, uint16_t* HWY_RESTRICT y) {
  for (size_t r = 0; r < rows; ++r) {
    const float* HWY_RESTRICT from = x + r * x_stride;
    uint16_t* HWY_RESTRICT to = y + r * cols;
    ForLanes(cols, [&](auto d, size_t i) HWY_ATTR {
      StoreRounded(d, hn::LoadU(d, from + i), to + i);
    });
  }
}

// AddBiasBackward for rows [r, r + kRows). In such a block, the sums are loaded
// and stored once for several rows. The gradients go to `rounded` if it is not
// null, else back to dy if there is an activation.
template <size_t kRows>
HWY_INLINE void BiasBackwardOfRows(size_t r, size_t cols,
                                   const float* HWY_RESTRICT y, bool relu,
                                   float* HWY_RESTRICT dy,
                                   float* HWY_RESTRICT dbias,
                                   uint16_t* HWY_RESTRICT rounded) {
  ForLanes(cols, [&](auto d, size_t i) HWY_ATTR {
    auto sum = hn::LoadU(d, dbias + i);
    for (size_t q = r; q < r + kRows; ++q) {
      const size_t at = q * cols + i;
      auto g = hn::LoadU(d, dy + at);
      if (relu) g = RectifiedGradient(d, hn::LoadU(d, y + at), g);
      if (rounded != nullptr) {
        StoreRounded(d, g, rounded + at);
      } else if (relu) {
        hn::StoreU(g, d, dy + at);
      }
      sum = hn::Add(sum, g);
    }
    hn::StoreU(sum, d, dbias + i);
  });
}

void AddBiasBackward(size_t rows, size_t cols, const float* HWY_RESTRICT y,
                     Activation activation, float* HWY_RESTRICT dy,
                     float* HWY_RESTRICT dbias,
                     uint16_t* HWY_RESTRICT rounded) {
  const bool relu = activation == Activation::kRelu;
  ForLanes(cols, [&](auto d, size_t i)
                     HWY_ATTR { hn::StoreU(hn::Zero(d), d, dbias + i); });
  // Rows are processed in order: dy is read once, and the sums stay in the
  // first cache.
  constexpr size_t kBlock = 4;
  size_t r = 0;
  for (; r + kBlock <= rows; r += kBlock) {
    BiasBackwardOfRows<kBlock>(r, cols, y, relu, dy, dbias, rounded);
  }
  for (; r < rows; ++r) {
    BiasBackwardOfRows<1>(r, cols, y, relu, dy, dbias, rounded);
  }
}

void Relu(size_t size, const float* HWY_RESTRICT x, float* HWY_RESTRICT y) {
  ForLanes(size, [&](auto d, size_t i) HWY_ATTR {
    hn::StoreU(Rectified(d, hn::LoadU(d, x + i)), d, y + i);
  });
}

void ReluInPlace(size_t size, float* HWY_RESTRICT y) {
  ForLanes(size, [&](auto d, size_t i) HWY_ATTR {
    hn::StoreU(Rectified(d, hn::LoadU(d, y + i)), d, y + i);
  });
}

void ReluBackward(size_t size, const float* HWY_RESTRICT y,
                  const float* HWY_RESTRICT dy, Write write,
                  float* HWY_RESTRICT dx) {
  const bool add = write == Write::kAdd;
  ForLanes(size, [&](auto d, size_t i) HWY_ATTR {
    Put(d, add, RectifiedGradient(d, hn::LoadU(d, y + i), hn::LoadU(d, dy + i)),
        dx + i);
  });
}

void CopyColumns(size_t rows, size_t cols, const float* HWY_RESTRICT x,
                 size_t x_stride, Write write, float* HWY_RESTRICT y,
                 size_t y_stride) {
  const bool add = write == Write::kAdd;
  for (size_t r = 0; r < rows; ++r) {
    const float* HWY_RESTRICT from = x + r * x_stride;
    float* HWY_RESTRICT to = y + r * y_stride;
    ForLanes(cols, [&](auto d, size_t i) HWY_ATTR {
      Put(d, add, hn::LoadU(d, from + i), to + i);
    });
  }
}

void SumColumns(size_t rows, size_t cols, const float* HWY_RESTRICT x,
                float* HWY_RESTRICT y) {
  for (size_t r = 0; r < rows; ++r) {
    const float* HWY_RESTRICT row = x + r * cols;
    float sum = 0;
    const hn::ScalableTag<float> full;
    auto sums = hn::Zero(full);
    size_t i = 0;
    for (; i + hn::Lanes(full) <= cols; i += hn::Lanes(full)) {
      sums = hn::Add(sums, hn::LoadU(full, row + i));
    }
    for (; i < cols; ++i) sum += row[i];
    y[r] = sum + hn::GetLane(hn::SumOfLanes(full, sums));
  }
}

void SumColumnsBackward(size_t rows, size_t cols, const float* HWY_RESTRICT dy,
                        Write write, float* HWY_RESTRICT dx) {
  const bool add = write == Write::kAdd;
  for (size_t r = 0; r < rows; ++r) {
    const float gradient = dy[r];
    float* HWY_RESTRICT row = dx + r * cols;
    ForLanes(cols, [&](auto d, size_t i) HWY_ATTR {
      Put(d, add, hn::Set(d, gradient), row + i);
    });
  }
}

// Rows of embeddings are short, so the last part of a row is one masked vector.
class RowAdder {
 public:
  using D = hn::ScalableTag<float>;

  explicit HWY_INLINE RowAdder(size_t width)
      : full_(width / hn::Lanes(D()) * hn::Lanes(D())), rest_(width - full_) {}

  // to += from, or to = from.
  template <bool kAdd>
  HWY_INLINE void Run(const float* HWY_RESTRICT from,
                      float* HWY_RESTRICT to) const {
    const D d;
    for (size_t i = 0; i < full_; i += hn::Lanes(d)) {
      Put(d, kAdd, hn::LoadU(d, from + i), to + i);
    }
    if (rest_ == 0) return;
    const auto mask = hn::FirstN(d, rest_);
    auto value = hn::MaskedLoad(mask, d, from + full_);
    if (kAdd) value = hn::Add(hn::MaskedLoad(mask, d, to + full_), value);
    hn::BlendedStore(value, mask, d, to + full_);
  }

 private:
  size_t full_;
  size_t rest_;
};

// 1 / the number of rows of a bag; 1 for an empty bag.
HWY_INLINE float MeanFactor(const RowBags& bags, size_t bag) {
  const uint32_t num_rows = bags.offsets[bag + 1] - bags.offsets[bag];
  return num_rows == 0 ? 1.0f : 1.0f / static_cast<float>(num_rows);
}

void SumBags(const RowBags& bags, const float* HWY_RESTRICT rows,
             float* HWY_RESTRICT out) {
  const RowAdder adder(bags.width);
  const float* HWY_RESTRICT first = rows + bags.column_begin;
  const uint32_t* HWY_RESTRICT row_of_key = bags.row_of_key;
  size_t bag = 0;
  for (size_t e = 0; e < bags.num_examples; ++e) {
    float* HWY_RESTRICT to = out + e * bags.ExampleStride();
    for (size_t s = 0; s < bags.num_slots; ++s, ++bag, to += bags.width) {
      if (bags.offsets == nullptr) {
        adder.Run<false>(first + row_of_key[bag] * bags.row_dim, to);
        continue;
      }
      ForLanes(bags.width, [&](auto d, size_t i) HWY_ATTR {
        hn::StoreU(hn::Zero(d), d, to + i);
      });
      for (size_t key = bags.offsets[bag]; key < bags.offsets[bag + 1]; ++key) {
        adder.Run<true>(first + row_of_key[key] * bags.row_dim, to);
      }
      if (!bags.mean || MeanFactor(bags, bag) == 1) continue;
      const float factor = MeanFactor(bags, bag);
      ForLanes(bags.width, [&](auto d, size_t i) HWY_ATTR {
        hn::StoreU(hn::Mul(hn::LoadU(d, to + i), hn::Set(d, factor)), d,
                   to + i);
      });
    }
  }
}

void SumBagsBackward(const RowBags& bags, const float* HWY_RESTRICT dout,
                     float* HWY_RESTRICT drows) {
  const RowAdder adder(bags.width);
  float* HWY_RESTRICT first = drows + bags.column_begin;
  const uint32_t* HWY_RESTRICT row_of_key = bags.row_of_key;
  size_t bag = 0;
  for (size_t e = 0; e < bags.num_examples; ++e) {
    const float* HWY_RESTRICT from = dout + e * bags.ExampleStride();
    for (size_t s = 0; s < bags.num_slots; ++s, ++bag, from += bags.width) {
      if (bags.offsets == nullptr) {
        adder.Run<true>(from, first + row_of_key[bag] * bags.row_dim);
        continue;
      }
      const float factor = bags.mean ? MeanFactor(bags, bag) : 1;
      for (size_t key = bags.offsets[bag]; key < bags.offsets[bag + 1]; ++key) {
        float* HWY_RESTRICT row = first + row_of_key[key] * bags.row_dim;
        if (factor == 1) {
          adder.Run<true>(from, row);
          continue;
        }
        ForLanes(bags.width, [&](auto d, size_t i) HWY_ATTR {
          const auto share =
              hn::Mul(hn::LoadU(d, from + i), hn::Set(d, factor));
          Put(d, /*add=*/true, share, row + i);
        });
      }
    }
  }
}

void FmSecondOrder(const FmShape& shape, const float* HWY_RESTRICT v,
                   float* HWY_RESTRICT sums, float* HWY_RESTRICT y) {
  const size_t width = shape.width;
  for (size_t e = 0; e < shape.num_examples; ++e) {
    const float* HWY_RESTRICT vectors = v + e * shape.num_vectors * width;
    float result = 0;
    ForLanes(width, [&](auto d, size_t i) HWY_ATTR {
      auto sum = hn::Zero(d);
      auto squares = hn::Zero(d);
      for (size_t s = 0; s < shape.num_vectors; ++s) {
        const auto x = hn::LoadU(d, vectors + s * width + i);
        sum = hn::Add(sum, x);
        squares = hn::MulAdd(x, x, squares);
      }
      hn::StoreU(sum, d, sums + e * width + i);
      result += hn::GetLane(hn::SumOfLanes(d, hn::MulSub(sum, sum, squares)));
    });
    y[e] = result / 2;
  }
}

void FmSecondOrderBackward(const FmShape& shape, const float* HWY_RESTRICT v,
                           const float* HWY_RESTRICT sums,
                           const float* HWY_RESTRICT dy, Write write,
                           float* HWY_RESTRICT dv) {
  const bool add = write == Write::kAdd;
  const size_t width = shape.width;
  for (size_t e = 0; e < shape.num_examples; ++e) {
    const float* HWY_RESTRICT sum = sums + e * width;
    for (size_t s = 0; s < shape.num_vectors; ++s) {
      const size_t begin = (e * shape.num_vectors + s) * width;
      ForLanes(width, [&](auto d, size_t i) HWY_ATTR {
        const auto others =
            hn::Sub(hn::LoadU(d, sum + i), hn::LoadU(d, v + begin + i));
        Put(d, add, hn::Mul(hn::Set(d, dy[e]), others), dv + begin + i);
      });
    }
  }
}

}  // namespace
}  // namespace HWY_NAMESPACE
}  // namespace oarlock::nn::cpu_kernels
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace oarlock::nn::cpu_kernels {

HWY_EXPORT(NarrowInner);
HWY_EXPORT(NarrowOuter);
HWY_EXPORT(NarrowGradient);
HWY_EXPORT(RoundToBfloat16);
HWY_EXPORT(AddBias);
HWY_EXPORT(AddBiasBackward);
HWY_EXPORT(Relu);
HWY_EXPORT(ReluInPlace);
HWY_EXPORT(ReluBackward);
HWY_EXPORT(CopyColumns);
HWY_EXPORT(SumColumns);
HWY_EXPORT(SumColumnsBackward);
HWY_EXPORT(SumBags);
HWY_EXPORT(SumBagsBackward);
HWY_EXPORT(FmSecondOrder);
HWY_EXPORT(FmSecondOrderBackward);

void NarrowInner(size_t m, size_t n, size_t k, Matrix a, const float* columns,
                 Write write, float* c, size_t c_stride) {
  HWY_DYNAMIC_DISPATCH(NarrowInner)(m, n, k, a, columns, write, c, c_stride);
}
void NarrowOuter(size_t m, size_t n, size_t k, Matrix a, Matrix b, Write write,
                 float* c, size_t c_stride) {
  HWY_DYNAMIC_DISPATCH(NarrowOuter)(m, n, k, a, b, write, c, c_stride);
}
void NarrowGradient(size_t m, size_t n, size_t k, Matrix a, Matrix b,
                    float* sums, Write write, float* c, size_t c_stride) {
  HWY_DYNAMIC_DISPATCH(NarrowGradient)
  (m, n, k, a, b, sums, write, c, c_stride);
}
void RoundToBfloat16(size_t rows, size_t cols, const float* x, size_t x_stride,
                     uint16_t* y) {
  HWY_DYNAMIC_DISPATCH(RoundToBfloat16)(rows, cols, x, x_stride, y);
}

// Calls put(sums [cols]) and writes the sums. For kAdd, the sums are computed
// separately first and then added, as in a product. So an accumulated gradient
// has the same bits as the sum of the gradients of several processes.
template <typename Put>
static void WriteSums(size_t cols, Write write, float* to, Put put) {
  if (write == Write::kOverwrite) return put(to);
  thread_local std::vector<float> sums;
  if (sums.size() < cols) sums.resize(cols);
  put(sums.data());
  for (size_t i = 0; i < cols; ++i) to[i] += sums[i];
}

void AddBias(size_t rows, size_t cols, const float* bias, Activation activation,
             float* y) {
  HWY_DYNAMIC_DISPATCH(AddBias)(rows, cols, bias, activation, y);
}
void AddBiasBackward(size_t rows, size_t cols, const float* y,
                     Activation activation, float* dy, Write write,
                     float* dbias) {
  WriteSums(cols, write, dbias, [&](float* sums) {
    HWY_DYNAMIC_DISPATCH(AddBiasBackward)
    (rows, cols, y, activation, dy, sums, nullptr);
  });
}
void AddBiasBackwardRounded(size_t rows, size_t cols, const float* y,
                            Activation activation, const float* dy, Write write,
                            float* dbias, uint16_t* rounded) {
  WriteSums(cols, write, dbias, [&](float* sums) {
    // With `rounded`, dy is only read.
    HWY_DYNAMIC_DISPATCH(AddBiasBackward)
    (rows, cols, y, activation, const_cast<float*>(dy), sums, rounded);
  });
}
void Relu(size_t size, const float* x, float* y) {
  HWY_DYNAMIC_DISPATCH(Relu)(size, x, y);
}
void ReluInPlace(size_t size, float* y) {
  HWY_DYNAMIC_DISPATCH(ReluInPlace)(size, y);
}
void ReluBackward(size_t size, const float* y, const float* dy, Write write,
                  float* dx) {
  HWY_DYNAMIC_DISPATCH(ReluBackward)(size, y, dy, write, dx);
}
void CopyColumns(size_t rows, size_t cols, const float* x, size_t x_stride,
                 Write write, float* y, size_t y_stride) {
  HWY_DYNAMIC_DISPATCH(CopyColumns)
  (rows, cols, x, x_stride, write, y, y_stride);
}
void SumColumns(size_t rows, size_t cols, const float* x, float* y) {
  HWY_DYNAMIC_DISPATCH(SumColumns)(rows, cols, x, y);
}
void SumColumnsBackward(size_t rows, size_t cols, const float* dy, Write write,
                        float* dx) {
  HWY_DYNAMIC_DISPATCH(SumColumnsBackward)(rows, cols, dy, write, dx);
}
void SumBags(const RowBags& bags, const float* rows, float* out) {
  HWY_DYNAMIC_DISPATCH(SumBags)(bags, rows, out);
}
void SumBagsBackward(const RowBags& bags, const float* dout, float* drows) {
  HWY_DYNAMIC_DISPATCH(SumBagsBackward)(bags, dout, drows);
}
void FmSecondOrder(const FmShape& shape, const float* v, float* sums,
                   float* y) {
  HWY_DYNAMIC_DISPATCH(FmSecondOrder)(shape, v, sums, y);
}
void FmSecondOrderBackward(const FmShape& shape, const float* v,
                           const float* sums, const float* dy, Write write,
                           float* dv) {
  HWY_DYNAMIC_DISPATCH(FmSecondOrderBackward)(shape, v, sums, dy, write, dv);
}

}  // namespace oarlock::nn::cpu_kernels
#endif  // HWY_ONCE
