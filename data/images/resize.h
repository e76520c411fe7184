// A part of an image at another size.

#ifndef OARLOCK_DATA_IMAGES_RESIZE_H_
#define OARLOCK_DATA_IMAGES_RESIZE_H_

#include <cstdint>

#include "data/images/image_decoder.h"

namespace oarlock::data {

// A rectangle of an image, in pixels, which may lie between them.
struct ImageArea {
  double top = 0;
  double left = 0;
  double height = 0;
  double width = 0;
};

// Writes `area` of `image` to `pixels` [height, width, 3]: a triangle filter as
// wide as what a pixel of the result covers, at least one pixel of the image to
// each side, first along rows, then along columns. That is bilinear
// interpolation where it enlarges, and leaves out nothing where it reduces
// (Pillow's BILINEAR of the area cut out).
// REQUIRES: `area` lies in the image and is not empty; height, width >= 1.
void ResizeArea(const RgbImage& image, const ImageArea& area, uint32_t height,
                uint32_t width, uint8_t* pixels);

}  // namespace oarlock::data

#endif  // OARLOCK_DATA_IMAGES_RESIZE_H_
