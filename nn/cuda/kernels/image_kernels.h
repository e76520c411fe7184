// Kernels of operations on images; see image_operations.h. A gradient is
// gathered by the thread that writes it, never scattered.

#ifndef OARLOCK_NN_CUDA_KERNELS_IMAGE_KERNELS_H_
#define OARLOCK_NN_CUDA_KERNELS_IMAGE_KERNELS_H_

#include <cstddef>
#include <cstdint>

#include "nn/cuda/kernels/device_code.h"
#include "nn/image_operations.h"
#include "nn/operation.h"

namespace oarlock::nn::cuda {
inline namespace OARLOCK_KERNEL_SIDE {

// One side of a window on an image: window.h, for kernels.
struct Side {
  size_t image;
  size_t positions;
  size_t kernel;
  size_t stride;
  size_t padding;

  // Whether element k at a position covers a pixel of the image, and which
  // pixel.
  OARLOCK_DEVICE bool PixelUnder(size_t position, size_t k,
                                 size_t* pixel) const {
    const size_t at = position * stride + k;
    *pixel = at - padding;
    return at >= padding && *pixel < image;
  }
  // Whether element k covers `pixel` at some position, and at which position.
  OARLOCK_DEVICE bool PositionOver(size_t pixel, size_t k,
                                   size_t* position) const {
    const size_t at = pixel + padding;
    if (at < k || (at - k) % stride != 0) return false;
    *position = (at - k) / stride;
    return *position < positions;
  }
};

struct WindowOnImage {
  Side rows;
  Side columns;
};

inline WindowOnImage OnImage(Extent image, const Window& w) {
  const Extent out = NumPositions(image, w);
  return {{image.height, out.height, w.kernel.height, w.stride.height,
           w.padding.height},
          {image.width, out.width, w.kernel.width, w.stride.width,
           w.padding.width}};
}

// ---- Convolution as a product ----

// Makes patches [images * positions, kernel area * channels] from x [images,
// height, width, channels]; count is the number of floats of patches.
struct PatchesBody {
  size_t count;
  WindowOnImage window;
  size_t channels;
  const float* x;
  float* patches;
  OARLOCK_DEVICE void operator()(size_t i) const {
    const Side& r = window.rows;
    const Side& q = window.columns;
    const size_t c = i % channels;
    const size_t l = i / channels % q.kernel;
    const size_t k = i / (channels * q.kernel) % r.kernel;
    const size_t position = i / (channels * q.kernel * r.kernel);
    const size_t image = position / (r.positions * q.positions);
    size_t row = 0, column = 0;
    const bool inside =
        r.PixelUnder(position / q.positions % r.positions, k, &row) &&
        q.PixelUnder(position % q.positions, l, &column);
    patches[i] =
        inside ? x[((image * r.image + row) * q.image + column) * channels + c]
               : 0;
  }
};

// Computes the gradient by x from the gradient by the patches; count is the
// number of floats of x.
struct PatchesBackwardBody {
  size_t count;
  WindowOnImage window;
  size_t channels;
  Write write;
  const float* dpatches;
  float* dx;
  OARLOCK_DEVICE void operator()(size_t i) const {
    const Side& r = window.rows;
    const Side& q = window.columns;
    const size_t c = i % channels;
    const size_t column = i / channels % q.image;
    const size_t row = i / (channels * q.image) % r.image;
    const size_t image = i / (channels * q.image * r.image);
    float sum = 0;
    for (size_t k = 0; k < r.kernel; ++k) {
      size_t y = 0, x = 0;
      if (!r.PositionOver(row, k, &y)) continue;
      for (size_t l = 0; l < q.kernel; ++l) {
        if (!q.PositionOver(column, l, &x)) continue;
        const size_t position = (image * r.positions + y) * q.positions + x;
        sum +=
            dpatches[((position * r.kernel + k) * q.kernel + l) * channels + c];
      }
    }
    Put(write, sum, &dx[i]);
  }
};

// ---- Pooling ----

// Number i of [images, rows, columns, channels].
struct PixelIndex {
  size_t image, row, column, channel;
  OARLOCK_DEVICE PixelIndex(size_t i, size_t rows, size_t columns,
                            size_t channels)
      : image(i / (channels * columns * rows)),
        row(i / (channels * columns) % rows),
        column(i / channels % columns),
        channel(i % channels) {}
};

// A thread for each output.
struct MaxPoolBody {
  size_t count;
  WindowOnImage window;
  size_t channels;
  Activation activation;
  const float* x;
  float* y;
  uint8_t* chosen;
  OARLOCK_DEVICE void operator()(size_t i) const {
    const Side& r = window.rows;
    const Side& q = window.columns;
    const PixelIndex at(i, r.positions, q.positions, channels);
    float most = 0;
    uint8_t choice = kNoneChosen;
    for (size_t k = 0; k < r.kernel; ++k) {
      size_t row = 0, column = 0;
      if (!r.PixelUnder(at.row, k, &row)) continue;
      for (size_t l = 0; l < q.kernel; ++l) {
        if (!q.PixelUnder(at.column, l, &column)) continue;
        const float value =
            x[((at.image * r.image + row) * q.image + column) * channels +
              at.channel];
        // NaN, which alone differs from itself, is the largest.
        if (choice != kNoneChosen && !(value > most) && value == value)
          continue;
        most = value;
        choice = static_cast<uint8_t>(k * q.kernel + l);
      }
    }
    if (activation == Activation::kRelu && most <= 0) {
      most = 0;
      choice = kNoneChosen;
    }
    y[i] = most;
    chosen[i] = choice;
  }
};

// A thread for each input.
struct MaxPoolBackwardBody {
  size_t count;
  WindowOnImage window;
  size_t channels;
  Write write;
  const float* dy;
  const uint8_t* chosen;
  float* dx;
  OARLOCK_DEVICE void operator()(size_t i) const {
    const Side& r = window.rows;
    const Side& q = window.columns;
    const PixelIndex at(i, r.image, q.image, channels);
    float sum = 0;
    for (size_t k = 0; k < r.kernel; ++k) {
      size_t row = 0, column = 0;
      if (!r.PositionOver(at.row, k, &row)) continue;
      for (size_t l = 0; l < q.kernel; ++l) {
        if (!q.PositionOver(at.column, l, &column)) continue;
        const size_t from =
            ((at.image * r.positions + row) * q.positions + column) * channels +
            at.channel;
        if (chosen[from] == k * q.kernel + l) sum += dy[from];
      }
    }
    Put(write, sum, &dx[i]);
  }
};

// The number of the window's elements inside the image at a position, along one
// side.
OARLOCK_DEVICE inline size_t ElementsOn(const Side& side, size_t position) {
  size_t count = 0, pixel = 0;
  for (size_t k = 0; k < side.kernel; ++k) {
    if (side.PixelUnder(position, k, &pixel)) ++count;
  }
  return count;
}

struct AveragePoolBody {
  size_t count;
  WindowOnImage window;
  size_t channels;
  const float* x;
  float* y;
  OARLOCK_DEVICE void operator()(size_t i) const {
    const Side& r = window.rows;
    const Side& q = window.columns;
    const PixelIndex at(i, r.positions, q.positions, channels);
    float sum = 0;
    size_t elements = 0;
    for (size_t k = 0; k < r.kernel; ++k) {
      size_t row = 0, column = 0;
      if (!r.PixelUnder(at.row, k, &row)) continue;
      for (size_t l = 0; l < q.kernel; ++l) {
        if (!q.PixelUnder(at.column, l, &column)) continue;
        sum += x[((at.image * r.image + row) * q.image + column) * channels +
                 at.channel];
        ++elements;
      }
    }
    y[i] = sum / static_cast<float>(elements);
  }
};

struct AveragePoolBackwardBody {
  size_t count;
  WindowOnImage window;
  size_t channels;
  Write write;
  const float* dy;
  float* dx;
  OARLOCK_DEVICE void operator()(size_t i) const {
    const Side& r = window.rows;
    const Side& q = window.columns;
    const PixelIndex at(i, r.image, q.image, channels);
    float sum = 0;
    for (size_t k = 0; k < r.kernel; ++k) {
      size_t row = 0, column = 0;
      if (!r.PositionOver(at.row, k, &row)) continue;
      for (size_t l = 0; l < q.kernel; ++l) {
        if (!q.PositionOver(at.column, l, &column)) continue;
        const size_t elements = ElementsOn(r, row) * ElementsOn(q, column);
        sum += dy[((at.image * r.positions + row) * q.positions + column) *
                      channels +
                  at.channel] /
               static_cast<float>(elements);
      }
    }
    Put(write, sum, &dx[i]);
  }
};

// ---- Bytes ----

struct ScaleBytesBody {
  size_t count;
  size_t channels;
  float factor[kMaxByteChannels];
  float addend[kMaxByteChannels];
  const uint8_t* bytes;
  float* y;
  OARLOCK_DEVICE void operator()(size_t i) const {
    const size_t c = i % channels;
    y[i] = factor[c] * static_cast<float>(bytes[i]) + addend[c];
  }
};

}  // namespace OARLOCK_KERNEL_SIDE
}  // namespace oarlock::nn::cuda

#endif  // OARLOCK_NN_CUDA_KERNELS_IMAGE_KERNELS_H_
