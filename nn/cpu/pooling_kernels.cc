#include "nn/cpu/pooling_kernels.h"

#include <cstddef>
#include <cstdint>

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "nn/cpu/pooling_kernels.cc"
#include "hwy/foreach_target.h"
// Highway compiles the following code once per instruction set.
#include "hwy/highway.h"
#include "nn/cpu/lanes-inl.h"

HWY_BEFORE_NAMESPACE();
namespace oarlock::nn::pooling_kernels {
namespace HWY_NAMESPACE {
namespace {

namespace hn = hwy::HWY_NAMESPACE;
using oarlock::nn::HWY_NAMESPACE::ForLanes;
using oarlock::nn::HWY_NAMESPACE::Put;

// The pixels under a window at one position.
struct Pixels {
  // Rows and columns of the kernel's elements inside the image.
  Interval rows;
  Interval columns;
  // Number of the pixel under the first of these elements.
  size_t first;

  size_t count() const {
    return (rows.end - rows.begin) * (columns.end - columns.begin);
  }
};

Interval RowsInside(const PoolingShape& shape, size_t position) {
  return ElementsInside(position, shape.image.height,
                        shape.window.kernel.height, shape.window.stride.height,
                        shape.window.padding.height);
}

Interval ColumnsInside(const PoolingShape& shape, size_t position) {
  return ElementsInside(position, shape.image.width, shape.window.kernel.width,
                        shape.window.stride.width, shape.window.padding.width);
}

// Calls visit(number of the position, its pixels) for all positions, in order.
template <class Visit>
HWY_INLINE void ForEachPosition(const PoolingShape& shape, Visit visit) {
  const Window& window = shape.window;
  const Extent out = NumPositions(shape.image, window);
  size_t position = 0;
  for (size_t n = 0; n < shape.images; ++n) {
    for (size_t i = 0; i < out.height; ++i) {
      Pixels pixels;
      pixels.rows = RowsInside(shape, i);
      const size_t row = n * shape.image.height + i * window.stride.height +
                         pixels.rows.begin - window.padding.height;
      for (size_t j = 0; j < out.width; ++j) {
        pixels.columns = ColumnsInside(shape, j);
        pixels.first = row * shape.image.width + j * window.stride.width +
                       pixels.columns.begin - window.padding.width;
        visit(position++, pixels);
      }
    }
  }
}

// The positions that cover a pixel.
struct Positions {
  size_t image;
  size_t row, column;  // of the pixel, in the padded image
  Interval rows;
  Interval columns;
};

// Calls visit(number of the pixel, the positions that cover it) for all pixels,
// in order.
template <class Visit>
HWY_INLINE void ForEachPixel(const PoolingShape& shape, Visit visit) {
  const Window& window = shape.window;
  const Extent out = NumPositions(shape.image, window);
  size_t pixel = 0;
  Positions at;
  for (at.image = 0; at.image < shape.images; ++at.image) {
    for (size_t i = 0; i < shape.image.height; ++i) {
      at.row = i + window.padding.height;
      at.rows = PositionsOver(i, out.height, window.kernel.height,
                              window.stride.height, window.padding.height);
      for (size_t j = 0; j < shape.image.width; ++j) {
        at.column = j + window.padding.width;
        at.columns = PositionsOver(j, out.width, window.kernel.width,
                                   window.stride.width, window.padding.width);
        visit(pixel++, at);
      }
    }
  }
}

void MaxPool(const PoolingShape& shape, Activation activation,
             const float* HWY_RESTRICT x, float* HWY_RESTRICT y,
             uint8_t* HWY_RESTRICT chosen) {
  const bool relu = activation == Activation::kRelu;
  const size_t channels = shape.channels;
  const size_t kernel_width = shape.window.kernel.width;
  ForEachPosition(shape, [&](size_t position, const Pixels& p) HWY_ATTR {
    ForLanes(channels, [&](auto d, size_t c) HWY_ATTR {
      const hn::RebindToSigned<decltype(d)> number;
      const hn::Rebind<uint8_t, decltype(d)> byte;
      const float* HWY_RESTRICT first = x + p.first * channels + c;
      auto best = hn::LoadU(d, first);
      size_t element = p.rows.begin * kernel_width + p.columns.begin;
      auto from = hn::Set(number, static_cast<int32_t>(element));
      for (size_t k = p.rows.begin; k < p.rows.end; ++k) {
        const float* HWY_RESTRICT pixel = first;
        element = k * kernel_width + p.columns.begin;
        for (size_t l = p.columns.begin; l < p.columns.end; ++l) {
          const auto value = hn::LoadU(d, pixel);
          // NaN is the largest.
          const auto larger = hn::Or(hn::Gt(value, best), hn::IsNaN(value));
          best = hn::IfThenElse(larger, value, best);
          from = hn::IfThenElse(hn::RebindMask(number, larger),
                                hn::Set(number, static_cast<int32_t>(element)),
                                from);
          pixel += channels;
          ++element;
        }
        first += shape.image.width * channels;
      }
      if (relu) {
        const auto stops = hn::Le(best, hn::Zero(d));
        best = hn::IfThenZeroElse(stops, best);
        from = hn::IfThenElse(hn::RebindMask(number, stops),
                              hn::Set(number, kNoneChosen), from);
      }
      hn::StoreU(best, d, y + position * channels + c);
      hn::StoreU(hn::DemoteTo(byte, from), byte,
                 chosen + position * channels + c);
    });
  });
}

void MaxPoolBackward(const PoolingShape& shape, const float* HWY_RESTRICT dy,
                     const uint8_t* HWY_RESTRICT chosen, Write write,
                     float* HWY_RESTRICT dx) {
  const bool add = write == Write::kAdd;
  const size_t channels = shape.channels;
  const Window& window = shape.window;
  const Extent out = NumPositions(shape.image, window);
  ForEachPixel(shape, [&](size_t pixel, const Positions& p) HWY_ATTR {
    ForLanes(channels, [&](auto d, size_t c) HWY_ATTR {
      const hn::RebindToSigned<decltype(d)> number;
      const hn::Rebind<uint8_t, decltype(d)> byte;
      auto sum = hn::Zero(d);
      for (size_t i = p.rows.begin; i < p.rows.end; ++i) {
        const size_t k = p.row - i * window.stride.height;
        for (size_t j = p.columns.begin; j < p.columns.end; ++j) {
          const size_t l = p.column - j * window.stride.width;
          const size_t at =
              ((p.image * out.height + i) * out.width + j) * channels + c;
          const auto element =
              static_cast<int32_t>(k * window.kernel.width + l);
          const auto from = hn::PromoteTo(number, hn::LoadU(byte, chosen + at));
          const auto mine = hn::Eq(from, hn::Set(number, element));
          sum = hn::Add(sum, hn::IfThenElseZero(hn::RebindMask(d, mine),
                                                hn::LoadU(d, dy + at)));
        }
      }
      Put(d, add, sum, dx + pixel * channels + c);
    });
  });
}

void AveragePool(const PoolingShape& shape, const float* HWY_RESTRICT x,
                 float* HWY_RESTRICT y) {
  const size_t channels = shape.channels;
  ForEachPosition(shape, [&](size_t position, const Pixels& p) HWY_ATTR {
    const float factor = 1 / static_cast<float>(p.count());
    ForLanes(channels, [&](auto d, size_t c) HWY_ATTR {
      const float* HWY_RESTRICT first = x + p.first * channels + c;
      auto sum = hn::Zero(d);
      for (size_t k = p.rows.begin; k < p.rows.end; ++k) {
        const float* HWY_RESTRICT pixel = first;
        for (size_t l = p.columns.begin; l < p.columns.end; ++l) {
          sum = hn::Add(sum, hn::LoadU(d, pixel));
          pixel += channels;
        }
        first += shape.image.width * channels;
      }
      hn::StoreU(hn::Mul(sum, hn::Set(d, factor)), d,
                 y + position * channels + c);
    });
  });
}

void AveragePoolBackward(const PoolingShape& shape,
                         const float* HWY_RESTRICT dy, Write write,
                         float* HWY_RESTRICT dx) {
  const bool add = write == Write::kAdd;
  const size_t channels = shape.channels;
  const Extent out = NumPositions(shape.image, shape.window);
  ForEachPixel(shape, [&](size_t pixel, const Positions& p) HWY_ATTR {
    ForLanes(channels, [&](auto d, size_t c) HWY_ATTR {
      auto sum = hn::Zero(d);
      for (size_t i = p.rows.begin; i < p.rows.end; ++i) {
        const Interval rows = RowsInside(shape, i);
        for (size_t j = p.columns.begin; j < p.columns.end; ++j) {
          const size_t at =
              ((p.image * out.height + i) * out.width + j) * channels + c;
          const size_t count = Pixels{rows, ColumnsInside(shape, j), 0}.count();
          sum = hn::MulAdd(hn::Set(d, 1 / static_cast<float>(count)),
                           hn::LoadU(d, dy + at), sum);
        }
      }
      Put(d, add, sum, dx + pixel * channels + c);
    });
  });
}

// A vector that starts at channel 0 is followed, after `channels` vectors, by
// another vector that starts at channel 0, for any number of channels.
void ScaleBytes(size_t pixels, size_t channels,
                const uint8_t* HWY_RESTRICT bytes, const ByteScale& scale,
                float* HWY_RESTRICT y) {
  const hn::ScalableTag<float> d;
  const hn::RebindToSigned<decltype(d)> number;
  const hn::Rebind<uint8_t, decltype(d)> byte;
  const size_t lanes = hn::Lanes(d);
  HWY_ALIGN float factors[kMaxByteChannels * hn::MaxLanes(d)];
  HWY_ALIGN float addends[kMaxByteChannels * hn::MaxLanes(d)];
  for (size_t i = 0; i < channels * lanes; ++i) {
    factors[i] = scale.factor[i % channels];
    addends[i] = scale.addend[i % channels];
  }
  const size_t size = pixels * channels;
  size_t i = 0;
  size_t phase = 0;
  for (; i + lanes <= size; i += lanes) {
    const auto value =
        hn::ConvertTo(d, hn::PromoteTo(number, hn::LoadU(byte, bytes + i)));
    hn::StoreU(hn::MulAdd(value, hn::Load(d, factors + phase),
                          hn::Load(d, addends + phase)),
               d, y + i);
    phase = phase + lanes == channels * lanes ? 0 : phase + lanes;
  }
  for (; i < size; ++i) {
    y[i] = static_cast<float>(bytes[i]) * scale.factor[i % channels] +
           scale.addend[i % channels];
  }
}

}  // namespace
}  // namespace HWY_NAMESPACE
}  // namespace oarlock::nn::pooling_kernels
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace oarlock::nn::pooling_kernels {

HWY_EXPORT(MaxPool);
HWY_EXPORT(MaxPoolBackward);
HWY_EXPORT(AveragePool);
HWY_EXPORT(AveragePoolBackward);
HWY_EXPORT(ScaleBytes);

void MaxPool(const PoolingShape& shape, Activation activation, const float* x,
             float* y, uint8_t* chosen) {
  HWY_DYNAMIC_DISPATCH(MaxPool)(shape, activation, x, y, chosen);
}
void MaxPoolBackward(const PoolingShape& shape, const float* dy,
                     const uint8_t* chosen, Write write, float* dx) {
  HWY_DYNAMIC_DISPATCH(MaxPoolBackward)(shape, dy, chosen, write, dx);
}
void AveragePool(const PoolingShape& shape, const float* x, float* y) {
  HWY_DYNAMIC_DISPATCH(AveragePool)(shape, x, y);
}
void AveragePoolBackward(const PoolingShape& shape, const float* dy,
                         Write write, float* dx) {
  HWY_DYNAMIC_DISPATCH(AveragePoolBackward)(shape, dy, write, dx);
}
void ScaleBytes(size_t pixels, size_t channels, const uint8_t* bytes,
                const ByteScale& scale, float* y) {
  HWY_DYNAMIC_DISPATCH(ScaleBytes)(pixels, channels, bytes, scale, y);
}

}  // namespace oarlock::nn::pooling_kernels
#endif  // HWY_ONCE
