#include "data/images/image_transform.h"

#include <algorithm>
#include <cstddef>
#include <cstring>
#include <type_traits>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "base/random.h"

namespace oarlock::data {
namespace {

// Separate the random numbers of an image from other uses of the seed.
constexpr uint64_t kPlacePurpose = 0x6175676d656e7431;
constexpr uint64_t kAreaPurpose = 0x6175676d656e7432;

uint64_t SeedOf(uint64_t seed, uint64_t purpose, const Sample& sample) {
  return DeriveSeed(DeriveSeed(DeriveSeed(seed, purpose), sample.repeat),
                    sample.example);
}

// Copies pixels [num_pixels, channels] in reverse order. Each usual number of
// channels has its own loop, which copies a pixel without a call.
void CopyMirrored(const uint8_t* pixels, size_t num_pixels, size_t channels,
                  uint8_t* out) {
  const auto copy = [=](auto pixel_bytes) {
    for (size_t i = 0; i < num_pixels; ++i) {
      std::memcpy(out + i * pixel_bytes,
                  pixels + (num_pixels - 1 - i) * pixel_bytes, pixel_bytes);
    }
  };
  switch (channels) {
    case 1:
      return copy(std::integral_constant<size_t, 1>());
    case 3:
      return copy(std::integral_constant<size_t, 3>());
    default:
      return copy(channels);
  }
}

// Writes row [width, channels] to `out`, moved by `right` pixels to the right
// and filled with black. If `flip`, the moved row is mirrored.
void MoveRow(const uint8_t* row, const ImageShape& shape, int right, bool flip,
             uint8_t* out) {
  const size_t channels = shape.channels;
  const int width = static_cast<int>(shape.width);
  // The pixels that stay inside.
  const int from = std::clamp(-right, 0, width);
  const int to = std::clamp(width - right, 0, width);
  if (right != 0) std::memset(out, 0, width * channels);
  if (from == to) return;
  const int at = flip ? width - (to + right) : from + right;
  if (flip) {
    CopyMirrored(row + from * channels, to - from, channels,
                 out + at * channels);
  } else {
    std::memcpy(out + at * channels, row + from * channels,
                (to - from) * channels);
  }
}

}  // namespace

absl::StatusOr<ImageTransform> ImageTransform::Create(
    const ImageShape& shape, const Augmentation& augmentation, uint64_t seed) {
  if (augmentation.padding > Augmentation::kMaxPadding) {
    return absl::InvalidArgumentError(absl::StrCat(
        "augmentation: padding is ", augmentation.padding, "; legal is 0 to ",
        Augmentation::kMaxPadding, "; correct the data set's options"));
  }
  ImageTransform transform;
  transform.shape_ = shape;
  transform.augmentation_ = augmentation;
  transform.seed_ = seed;
  return transform;
}

std::optional<uint64_t> ImageTransform::AreaSeed(const Sample& sample) const {
  if (!augmentation_.random_area) return std::nullopt;
  return SeedOf(seed_, kAreaPurpose, sample);
}

void ImageTransform::Apply(const Sample& sample, const uint8_t* pixels,
                           uint8_t* out) const {
  if (augmentation_.padding == 0 && !augmentation_.flip) {
    std::memcpy(out, pixels, shape_.size());
    return;
  }
  const int padding = static_cast<int>(augmentation_.padding);
  // How far the image is moved; 0, 0 without padding.
  RandomSequence random(SeedOf(seed_, kPlacePurpose, sample));
  const int down = static_cast<int>(random.Below(2 * padding + 1)) - padding;
  const int right = static_cast<int>(random.Below(2 * padding + 1)) - padding;
  const bool flip = augmentation_.flip && random.Below(2) == 1;
  const size_t row_bytes = size_t{shape_.width} * shape_.channels;
  const int height = static_cast<int>(shape_.height);
  for (int y = 0; y < height; ++y, out += row_bytes) {
    const int from = y - down;
    if (from >= 0 && from < height) {
      MoveRow(pixels + from * row_bytes, shape_, right, flip, out);
    } else {
      std::memset(out, 0, row_bytes);
    }
  }
}

}  // namespace oarlock::data
