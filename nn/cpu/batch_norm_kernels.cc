#include "nn/cpu/batch_norm_kernels.h"

#include <algorithm>
#include <cmath>
#include <cstddef>

#include "nn/cpu/math_threads.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "nn/cpu/batch_norm_kernels.cc"
#include "hwy/foreach_target.h"
// Highway compiles the following code once per instruction set.
#include "hwy/highway.h"
#include "nn/cpu/lanes-inl.h"

HWY_BEFORE_NAMESPACE();
namespace oarlock::nn::batch_norm_kernels {
namespace HWY_NAMESPACE {
namespace {

namespace hn = hwy::HWY_NAMESPACE;
using oarlock::nn::HWY_NAMESPACE::ForLanes;
using oarlock::nn::HWY_NAMESPACE::Put;
using oarlock::nn::HWY_NAMESPACE::Rectified;
using oarlock::nn::HWY_NAMESPACE::RectifiedGradient;

// Number of floats of a block of rows. The first two caches hold such blocks of
// two arrays.
constexpr size_t kBlockFloats = 16384;

// Writes two sums over rows [first, last) to sums [2, channels].
// sum_rows(begin, end, d, c, &a, &b) adds the sums of a vector of columns to a
// and b. Uses columns [2, channels].
template <class SumRows>
HWY_INLINE void SumBlocks(size_t first, size_t last, size_t channels,
                          double* HWY_RESTRICT sums,
                          float* HWY_RESTRICT columns, SumRows sum_rows) {
  std::fill_n(sums, 2 * channels, 0);
  const size_t block = std::max<size_t>(8, kBlockFloats / channels);
  for (size_t begin = first; begin < last; begin += block) {
    const size_t end = std::min(last, begin + block);
    ForLanes(channels, [&](auto d, size_t c) HWY_ATTR {
      auto a = hn::Zero(d);
      auto b = hn::Zero(d);
      sum_rows(begin, end, d, c, a, b);
      hn::StoreU(a, d, columns + c);
      hn::StoreU(b, d, columns + channels + c);
    });
    for (size_t i = 0; i < 2 * channels; ++i) sums[i] += columns[i];
  }
}

// Writes the two sums over all rows to room.sums [2, channels].
template <class SumRows>
HWY_INLINE void SumParts(size_t rows, size_t channels, const Room& room,
                         SumRows sum_rows) {
  ParallelFor(room.threads, kParts, [&](size_t begin, size_t end) HWY_ATTR {
    for (size_t part = begin; part < end; ++part) {
      const size_t at = part * 2 * channels;
      SumBlocks(part * rows / kParts, (part + 1) * rows / kParts, channels,
                room.sums + at, room.parts + at, sum_rows);
    }
  });
  for (size_t part = 1; part < kParts; ++part) {
    const double* HWY_RESTRICT more = room.sums + part * 2 * channels;
    for (size_t i = 0; i < 2 * channels; ++i) room.sums[i] += more[i];
  }
}

// y = activation(x * factor + addend + residual) for rows [begin, end).
template <bool kRelu, bool kResidual>
HWY_INLINE void Apply(const BatchNormArgs& args, size_t begin, size_t end,
                      const float* HWY_RESTRICT factor,
                      const float* HWY_RESTRICT addend, float* HWY_RESTRICT y) {
  for (size_t r = begin; r < end; ++r) {
    const size_t row = r * args.channels;
    ForLanes(args.channels, [&](auto d, size_t c) HWY_ATTR {
      auto value =
          hn::MulAdd(hn::LoadU(d, args.x + row + c), hn::LoadU(d, factor + c),
                     hn::LoadU(d, addend + c));
      if (kResidual) {
        value = hn::Add(value, hn::LoadU(d, args.residual + row + c));
      }
      if (kRelu) value = Rectified(d, value);
      hn::StoreU(value, d, y + row + c);
    });
  }
}

void ApplyAny(const BatchNormArgs& args, int threads, const float* factor,
              const float* addend, float* y) {
  const bool relu = args.activation == Activation::kRelu;
  const bool residual = args.residual != nullptr;
  ParallelFor(threads, args.rows, [&](size_t begin, size_t end) HWY_ATTR {
    if (residual) {
      relu ? Apply<true, true>(args, begin, end, factor, addend, y)
           : Apply<false, true>(args, begin, end, factor, addend, y);
    } else {
      relu ? Apply<true, false>(args, begin, end, factor, addend, y)
           : Apply<false, false>(args, begin, end, factor, addend, y);
    }
  });
}

// Computes the factor and the addend for x from mean and 1 / deviation.
void FactorAndAddend(const BatchNormArgs& args, const float* mean,
                     const float* inverse, float* factor, float* addend) {
  for (size_t c = 0; c < args.channels; ++c) {
    factor[c] = inverse[c] * args.scale[c];
    addend[c] = args.shift[c] - mean[c] * factor[c];
  }
}

void Training(const BatchNormArgs& args, Room room, float* HWY_RESTRICT y) {
  const size_t channels = args.channels;
  // Sums are sums of distances to the first row, so that the variance keeps its
  // precision when the mean is large.
  const float* HWY_RESTRICT pivot = args.x;
  SumParts(args.rows, channels, room,
           [&](size_t begin, size_t end, auto d, size_t c, auto& sum,
               auto& squares) HWY_ATTR {
             const auto from = hn::LoadU(d, pivot + c);
             for (size_t r = begin; r < end; ++r) {
               const auto x = hn::LoadU(d, args.x + r * channels + c);
               const auto distance = hn::Sub(x, from);
               sum = hn::Add(sum, distance);
               squares = hn::MulAdd(distance, distance, squares);
             }
           });
  float* HWY_RESTRICT mean = args.scratch;
  float* HWY_RESTRICT inverse = args.scratch + channels;
  const double rows = static_cast<double>(args.rows);
  const double unbiased = args.rows > 1 ? rows / (rows - 1) : 1;
  const double momentum = args.momentum;
  for (size_t c = 0; c < channels; ++c) {
    const double distance = room.sums[c] / rows;
    const double batch_mean = pivot[c] + distance;
    const double variance =
        std::max(room.sums[channels + c] / rows - distance * distance, 0.0);
    mean[c] = static_cast<float>(batch_mean);
    inverse[c] = static_cast<float>(1 / std::sqrt(variance + args.epsilon));
    args.running_mean[c] = static_cast<float>(momentum * args.running_mean[c] +
                                              (1 - momentum) * batch_mean);
    args.running_variance[c] =
        static_cast<float>(momentum * args.running_variance[c] +
                           (1 - momentum) * variance * unbiased);
  }
  FactorAndAddend(args, mean, inverse, room.columns, room.columns + channels);
  ApplyAny(args, room.threads, room.columns, room.columns + channels, y);
}

void Inference(const BatchNormArgs& args, Room room, float* HWY_RESTRICT y) {
  const size_t channels = args.channels;
  float* HWY_RESTRICT inverse = room.columns + 2 * channels;
  for (size_t c = 0; c < channels; ++c) {
    inverse[c] = 1 / std::sqrt(args.running_variance[c] + args.epsilon);
  }
  FactorAndAddend(args, args.running_mean, inverse, room.columns,
                  room.columns + channels);
  ApplyAny(args, room.threads, room.columns, room.columns + channels, y);
}

// How the gradient by the output is masked to become the gradient by the
// activation's input.
enum class Mask {
  kNone,
  // By the output, which includes a residual.
  kOutput,
  // By the output computed again from x: that is cheaper than reading it.
  kInput,
};

template <Mask kMask>
struct Masked {
  const float* HWY_RESTRICT dy;
  const float* HWY_RESTRICT y;
  const float* HWY_RESTRICT factor;
  const float* HWY_RESTRICT addend;

  template <class D>
  HWY_INLINE hn::Vec<D> Load(D d, size_t i, size_t c, hn::Vec<D> x) const {
    const auto g = hn::LoadU(d, dy + i);
    if (kMask == Mask::kNone) return g;
    const auto out =
        kMask == Mask::kOutput
            ? hn::LoadU(d, y + i)
            : hn::MulAdd(x, hn::LoadU(d, factor + c), hn::LoadU(d, addend + c));
    return RectifiedGradient(d, out, g);
  }
};

// Writes to room.sums the sums over the rows of g and of g * (x - mean).
template <Mask kMask>
HWY_INLINE void SumGradients(const BatchNormArgs& args,
                             const Masked<kMask>& masked, Room room) {
  const size_t channels = args.channels;
  const float* HWY_RESTRICT mean = args.scratch;
  SumParts(args.rows, channels, room,
           [&](size_t begin, size_t end, auto d, size_t c, auto& sum,
               auto& products) HWY_ATTR {
             const auto m = hn::LoadU(d, mean + c);
             for (size_t r = begin; r < end; ++r) {
               const size_t i = r * channels + c;
               const auto x = hn::LoadU(d, args.x + i);
               const auto g = masked.Load(d, i, c, x);
               sum = hn::Add(sum, g);
               products = hn::MulAdd(g, hn::Sub(x, m), products);
             }
           });
}

// dx = g * factor + (x - mean) * by_x + by_one, and dresidual = g, for rows
// [begin, end).
template <Mask kMask>
HWY_INLINE void PutGradients(const BatchNormArgs& args, size_t begin,
                             size_t end, const Masked<kMask>& masked,
                             const BatchNormGradients& gradients,
                             const float* HWY_RESTRICT factor,
                             const float* HWY_RESTRICT by_x,
                             const float* HWY_RESTRICT by_one) {
  const float* HWY_RESTRICT mean = args.scratch;
  const bool add = gradients.dx_write == Write::kAdd;
  const bool add_residual = gradients.dresidual_write == Write::kAdd;
  // dx and dresidual are the same array if x is also the residual.
  float* const dx = gradients.dx;
  float* const dresidual = gradients.dresidual;
  for (size_t r = begin; r < end; ++r) {
    const size_t row = r * args.channels;
    ForLanes(args.channels, [&](auto d, size_t c) HWY_ATTR {
      const auto x = hn::LoadU(d, args.x + row + c);
      const auto g = masked.Load(d, row + c, c, x);
      if (dx != nullptr) {
        const auto rest =
            hn::MulAdd(hn::Sub(x, hn::LoadU(d, mean + c)),
                       hn::LoadU(d, by_x + c), hn::LoadU(d, by_one + c));
        Put(d, add, hn::MulAdd(g, hn::LoadU(d, factor + c), rest),
            dx + row + c);
      }
      if (dresidual != nullptr) Put(d, add_residual, g, dresidual + row + c);
    });
  }
}

template <Mask kMask>
void BackwardWith(const BatchNormArgs& args, const float* y,
                  const BatchNormGradients& gradients, Room room) {
  const size_t channels = args.channels;
  const float* HWY_RESTRICT mean = args.scratch;
  const float* HWY_RESTRICT inverse = args.scratch + channels;
  float* HWY_RESTRICT factor = room.columns;
  float* HWY_RESTRICT addend = room.columns + channels;
  float* HWY_RESTRICT by_x = room.columns + 2 * channels;
  float* HWY_RESTRICT by_one = room.columns + 3 * channels;
  FactorAndAddend(args, mean, inverse, factor, addend);
  const Masked<kMask> masked = {gradients.dy, y, factor, addend};
  SumGradients(args, masked, room);
  const bool add = gradients.parameter_write == Write::kAdd;
  const double rows = static_cast<double>(args.rows);
  for (size_t c = 0; c < channels; ++c) {
    const double dshift = room.sums[c];
    const double dscale = room.sums[channels + c] * inverse[c];
    by_x[c] = static_cast<float>(-factor[c] * dscale * inverse[c] / rows);
    by_one[c] = static_cast<float>(-factor[c] * dshift / rows);
    float* const to_shift = gradients.dshift + c;
    float* const to_scale = gradients.dscale + c;
    *to_shift = static_cast<float>(add ? *to_shift + dshift : dshift);
    *to_scale = static_cast<float>(add ? *to_scale + dscale : dscale);
  }
  ParallelFor(room.threads, args.rows, [&](size_t begin, size_t end) HWY_ATTR {
    PutGradients(args, begin, end, masked, gradients, factor, by_x, by_one);
  });
}

void Backward(const BatchNormArgs& args, const float* y,
              const BatchNormGradients& gradients, Room room) {
  if (args.activation == Activation::kNone) {
    BackwardWith<Mask::kNone>(args, y, gradients, room);
  } else if (args.residual != nullptr) {
    BackwardWith<Mask::kOutput>(args, y, gradients, room);
  } else {
    BackwardWith<Mask::kInput>(args, y, gradients, room);
  }
}

}  // namespace
}  // namespace HWY_NAMESPACE
}  // namespace oarlock::nn::batch_norm_kernels
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace oarlock::nn::batch_norm_kernels {

HWY_EXPORT(Training);
HWY_EXPORT(Inference);
HWY_EXPORT(Backward);

void Training(const BatchNormArgs& args, Room room, float* y) {
  HWY_DYNAMIC_DISPATCH(Training)(args, room, y);
}
void Inference(const BatchNormArgs& args, Room room, float* y) {
  HWY_DYNAMIC_DISPATCH(Inference)(args, room, y);
}
void Backward(const BatchNormArgs& args, const float* y,
              const BatchNormGradients& gradients, Room room) {
  HWY_DYNAMIC_DISPATCH(Backward)(args, y, gradients, room);
}

}  // namespace oarlock::nn::batch_norm_kernels
#endif  // HWY_ONCE
