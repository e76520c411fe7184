// Resizes a part of an image.

#ifndef OARLOCK_DATA_IMAGES_RESIZE_H_
#define OARLOCK_DATA_IMAGES_RESIZE_H_

#include <cstdint>

#include "data/images/image_decoder.h"

namespace oarlock::data {

// A rectangle of an image, in pixels; its borders may be fractions.
struct ImageArea {
  double top = 0;
  double left = 0;
  double height = 0;
  double width = 0;
};

// Writes `area` of `image`, resized, to `pixels` [height, width, 3]. A triangle
// filter is applied along rows, then along columns. It reaches, to each side,
// as far as the width that a pixel of the result covers in the image, and at
// least one pixel. So it is bilinear interpolation where it enlarges, and uses
// every pixel of the area where it reduces. The result is that of Pillow's
// BILINEAR on the cut-out area. REQUIRES: `area` is inside the image and is not
// empty; height, width >= 1.
void ResizeArea(const RgbImage& image, const ImageArea& area, uint32_t height,
                uint32_t width, uint8_t* pixels);

}  // namespace oarlock::data

#endif  // OARLOCK_DATA_IMAGES_RESIZE_H_
