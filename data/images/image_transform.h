// The changes that training makes to an image.

#ifndef OARLOCK_DATA_IMAGES_IMAGE_TRANSFORM_H_
#define OARLOCK_DATA_IMAGES_IMAGE_TRANSFORM_H_

#include <cstdint>
#include <optional>

#include "absl/status/statusor.h"
#include "data/images/image_dataset.h"
#include "data/order/distributed_batch_sampler.h"

namespace oarlock::data {

// The random changes to an image in training. They depend only on the job's
// seed, the sample's repeat and its example, so they are the same on any number
// of ranks and threads.
struct Augmentation {
  static constexpr uint32_t kMaxPadding = 1024;

  // Number of black pixels added on each side. An area of the image's size is
  // then cut out at a random place (He et al., "Deep residual learning", CVPR
  // 2016, section 4.2, uses 4). 0: the image is not moved.
  uint32_t padding = 0;
  // Mirrored left to right in half of the cases.
  bool flip = false;
  // Takes a random part of a file that holds more than the shape
  // (ImageDataset::Pixels).
  bool random_area = false;
};

// Transforms bytes to bytes. The network's first layer converts them to numbers
// (NewImageInput, nn/image_layers.h).
//
// Immutable and thread-safe.
class ImageTransform {
 public:
  // InvalidArgument when a number is outside its range above.
  static absl::StatusOr<ImageTransform> Create(const ImageShape& shape,
                                               const Augmentation& augmentation,
                                               uint64_t seed);

  const ImageShape& shape() const { return shape_; }

  // The `area_seed` for ImageDataset::Pixels.
  std::optional<uint64_t> AreaSeed(const Sample& sample) const;

  // Writes `pixels` [shape], augmented, to `out` [shape]. The two must not
  // overlap.
  void Apply(const Sample& sample, const uint8_t* pixels, uint8_t* out) const;

 private:
  ImageTransform() = default;

  ImageShape shape_;
  Augmentation augmentation_;
  uint64_t seed_ = 0;
};

}  // namespace oarlock::data

#endif  // OARLOCK_DATA_IMAGES_IMAGE_TRANSFORM_H_
