#include "worker/nn/cpu_kernels.h"

#include <cstddef>
#include <cstdint>

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "worker/nn/cpu_kernels.cc"
#include "hwy/foreach_target.h"
// Highway compiles what follows once per instruction set.
#include "hwy/highway.h"

HWY_BEFORE_NAMESPACE();
namespace oarlock::cpu_kernels {
namespace HWY_NAMESPACE {
namespace {

namespace hn = hwy::HWY_NAMESPACE;

// Calls visit(d, i) so that the lanes of all calls are 0 .. size - 1, each
// once: full vectors, then fours, then ones. Rows of an embedding are short,
// so the rest matters.
template <class Visit>
HWY_INLINE void ForLanes(size_t size, Visit visit) {
  const hn::ScalableTag<float> full;
  const hn::CappedTag<float, 4> four;
  const hn::CappedTag<float, 1> one;
  size_t i = 0;
  for (; i + hn::Lanes(full) <= size; i += hn::Lanes(full)) visit(full, i);
  for (; i + hn::Lanes(four) <= size; i += hn::Lanes(four)) visit(four, i);
  for (; i < size; ++i) visit(one, i);
}

template <class D>
HWY_INLINE void Put(D d, bool add, hn::Vec<D> value, float* to) {
  if (add) value = hn::Add(hn::LoadU(d, to), value);
  hn::StoreU(value, d, to);
}

void AddBias(size_t rows, size_t cols, const float* HWY_RESTRICT bias,
             Activation activation, float* HWY_RESTRICT y) {
  const bool relu = activation == Activation::kRelu;
  for (size_t r = 0; r < rows; ++r) {
    float* HWY_RESTRICT row = y + r * cols;
    ForLanes(cols, [&](auto d, size_t i) HWY_ATTR {
      auto x = hn::Add(hn::LoadU(d, row + i), hn::LoadU(d, bias + i));
      if (relu) x = hn::Max(x, hn::Zero(d));
      hn::StoreU(x, d, row + i);
    });
  }
}

void AddBiasBackward(size_t rows, size_t cols, const float* HWY_RESTRICT y,
                     Activation activation, float* HWY_RESTRICT dy,
                     Write write, float* HWY_RESTRICT dbias) {
  const bool relu = activation == Activation::kRelu;
  if (write == Write::kOverwrite) {
    ForLanes(cols, [&](auto d, size_t i)
                       HWY_ATTR { hn::StoreU(hn::Zero(d), d, dbias + i); });
  }
  // Row by row: dy streams through, and the sums stay in the first cache.
  for (size_t r = 0; r < rows; ++r) {
    const float* HWY_RESTRICT y_row = relu ? y + r * cols : nullptr;
    float* HWY_RESTRICT row = dy + r * cols;
    ForLanes(cols, [&](auto d, size_t i) HWY_ATTR {
      auto g = hn::LoadU(d, row + i);
      if (relu) {
        const auto on = hn::Gt(hn::LoadU(d, y_row + i), hn::Zero(d));
        g = hn::IfThenElseZero(on, g);
        hn::StoreU(g, d, row + i);
      }
      Put(d, true, g, dbias + i);
    });
  }
}

void Relu(size_t size, const float* HWY_RESTRICT x, float* HWY_RESTRICT y) {
  ForLanes(size, [&](auto d, size_t i) HWY_ATTR {
    hn::StoreU(hn::Max(hn::LoadU(d, x + i), hn::Zero(d)), d, y + i);
  });
}

void ReluBackward(size_t size, const float* HWY_RESTRICT y,
                  const float* HWY_RESTRICT dy, Write write,
                  float* HWY_RESTRICT dx) {
  const bool add = write == Write::kAdd;
  ForLanes(size, [&](auto d, size_t i) HWY_ATTR {
    const auto positive = hn::Gt(hn::LoadU(d, y + i), hn::Zero(d));
    Put(d, add, hn::IfThenElseZero(positive, hn::LoadU(d, dy + i)), dx + i);
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

HWY_INLINE void AddRow(size_t width, bool add, const float* HWY_RESTRICT from,
                       float* HWY_RESTRICT to) {
  ForLanes(width, [&](auto d, size_t i) HWY_ATTR {
    Put(d, add, hn::LoadU(d, from + i), to + i);
  });
}

void SumBags(const RowBags& bags, const float* HWY_RESTRICT rows,
             float* HWY_RESTRICT out) {
  const size_t num_bags = bags.num_examples * bags.num_slots;
  const size_t width = bags.width;
  const float* HWY_RESTRICT first = rows + bags.column_begin;
  const uint32_t* HWY_RESTRICT row_of_key = bags.row_of_key;
  if (bags.offsets == nullptr) {
    for (size_t bag = 0; bag < num_bags; ++bag) {
      AddRow(width, false, first + row_of_key[bag] * bags.row_dim,
             out + bag * width);
    }
    return;
  }
  for (size_t bag = 0; bag < num_bags; ++bag) {
    float* HWY_RESTRICT to = out + bag * width;
    ForLanes(width, [&](auto d, size_t i)
                        HWY_ATTR { hn::StoreU(hn::Zero(d), d, to + i); });
    for (size_t key = bags.offsets[bag]; key < bags.offsets[bag + 1]; ++key) {
      AddRow(width, true, first + row_of_key[key] * bags.row_dim, to);
    }
  }
}

void SumBagsBackward(const RowBags& bags, const float* HWY_RESTRICT dout,
                     float* HWY_RESTRICT drows) {
  const size_t num_bags = bags.num_examples * bags.num_slots;
  const size_t width = bags.width;
  float* HWY_RESTRICT first = drows + bags.column_begin;
  const uint32_t* HWY_RESTRICT row_of_key = bags.row_of_key;
  if (bags.offsets == nullptr) {
    for (size_t bag = 0; bag < num_bags; ++bag) {
      AddRow(width, true, dout + bag * width,
             first + row_of_key[bag] * bags.row_dim);
    }
    return;
  }
  for (size_t bag = 0; bag < num_bags; ++bag) {
    for (size_t key = bags.offsets[bag]; key < bags.offsets[bag + 1]; ++key) {
      AddRow(width, true, dout + bag * width,
             first + row_of_key[key] * bags.row_dim);
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
}  // namespace oarlock::cpu_kernels
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace oarlock::cpu_kernels {

HWY_EXPORT(AddBias);
HWY_EXPORT(AddBiasBackward);
HWY_EXPORT(Relu);
HWY_EXPORT(ReluBackward);
HWY_EXPORT(CopyColumns);
HWY_EXPORT(SumColumns);
HWY_EXPORT(SumColumnsBackward);
HWY_EXPORT(SumBags);
HWY_EXPORT(SumBagsBackward);
HWY_EXPORT(FmSecondOrder);
HWY_EXPORT(FmSecondOrderBackward);

void AddBias(size_t rows, size_t cols, const float* bias, Activation activation,
             float* y) {
  HWY_DYNAMIC_DISPATCH(AddBias)(rows, cols, bias, activation, y);
}
void AddBiasBackward(size_t rows, size_t cols, const float* y,
                     Activation activation, float* dy, Write write,
                     float* dbias) {
  HWY_DYNAMIC_DISPATCH(AddBiasBackward)
  (rows, cols, y, activation, dy, write, dbias);
}
void Relu(size_t size, const float* x, float* y) {
  HWY_DYNAMIC_DISPATCH(Relu)(size, x, y);
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

}  // namespace oarlock::cpu_kernels
#endif  // HWY_ONCE
