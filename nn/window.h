// The window of a convolution or a pooling, which moves over an image.

#ifndef OARLOCK_NN_WINDOW_H_
#define OARLOCK_NN_WINDOW_H_

#include <algorithm>
#include <cstddef>

namespace oarlock::nn {

struct Extent {
  size_t height = 0;
  size_t width = 0;

  size_t area() const { return height * width; }
  friend bool operator==(const Extent&, const Extent&) = default;
};

// At position (i, j), element (k, l) of the window covers the image's pixel (i
// * stride.height + k - padding.height, j * stride.width + l - padding.width),
// which may be outside the image.
struct Window {
  Extent kernel = {1, 1};
  Extent stride = {1, 1};
  Extent padding = {0, 0};  // on either side

  friend bool operator==(const Window&, const Window&) = default;
};

// A window of size x size.
inline Window SquareWindow(size_t size, size_t stride = 1, size_t padding = 0) {
  return {{size, size}, {stride, stride}, {padding, padding}};
}

// The number of positions of a kernel along one side at which it does not
// extend beyond the padding. 0 if the kernel is larger than the padded image.
inline size_t NumPositions(size_t image, size_t kernel, size_t stride,
                           size_t padding) {
  const size_t padded = image + 2 * padding;
  return padded < kernel ? 0 : (padded - kernel) / stride + 1;
}

inline Extent NumPositions(Extent image, const Window& window) {
  return {NumPositions(image.height, window.kernel.height, window.stride.height,
                       window.padding.height),
          NumPositions(image.width, window.kernel.width, window.stride.width,
                       window.padding.width)};
}

// An interval of positions or of elements, [begin, end).
struct Interval {
  size_t begin = 0;
  size_t end = 0;
};

// The kernel's elements that are inside the image at a position, along one
// side.
inline Interval ElementsInside(size_t position, size_t image, size_t kernel,
                               size_t stride, size_t padding) {
  const size_t start = position * stride;  // in the padded image
  const size_t image_end = image + padding;
  Interval interval;
  interval.begin = start < padding ? padding - start : 0;
  interval.end = start < image_end ? std::min(kernel, image_end - start) : 0;
  interval.end = std::max(interval.begin, interval.end);
  return interval;
}

// The positions at which the kernel covers a pixel, along one side.
inline Interval PositionsOver(size_t pixel, size_t num_positions, size_t kernel,
                              size_t stride, size_t padding) {
  const size_t at = pixel + padding;  // in the padded image
  Interval interval;
  interval.begin = at < kernel ? 0 : (at - kernel) / stride + 1;
  interval.end =
      std::max(interval.begin, std::min(at / stride + 1, num_positions));
  return interval;
}

}  // namespace oarlock::nn

#endif  // OARLOCK_NN_WINDOW_H_
