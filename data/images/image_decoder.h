// JPEG and PNG bytes to pixels.

#ifndef OARLOCK_DATA_IMAGES_IMAGE_DECODER_H_
#define OARLOCK_DATA_IMAGES_IMAGE_DECODER_H_

#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"

namespace oarlock::data {

// Red, green, blue.
struct RgbImage {
  uint32_t height = 0;
  uint32_t width = 0;
  std::vector<uint8_t> pixels;  // [height, width, 3]
};

struct ImageExtent {
  // The most pixels that a file may have, along a side and in total.
  static constexpr uint32_t kMaxSide = 1u << 16;
  static constexpr uint64_t kMaxPixels = uint64_t{1} << 27;

  uint32_t height = 0;
  uint32_t width = 0;
};

// Both functions recognize the format by the first bytes. `name` is the file's
// name for errors. DataLoss when the bytes are neither JPEG nor PNG, are
// damaged or end too early, or when a limit of ImageExtent is exceeded.

// The size in the header.
absl::StatusOr<ImageExtent> ReadImageExtent(const std::string& name,
                                            absl::string_view bytes);

// The decoded image. The sides of a JPEG are divided by `shrink` (1, 2, 4 or 8)
// and rounded up, which saves most of the work of decoding. A PNG keeps its
// size. Gray and CMYK become RGB; transparent pixels are blended with black.
absl::StatusOr<RgbImage> DecodeImage(const std::string& name,
                                     absl::string_view bytes,
                                     uint32_t shrink = 1);

}  // namespace oarlock::data

#endif  // OARLOCK_DATA_IMAGES_IMAGE_DECODER_H_
