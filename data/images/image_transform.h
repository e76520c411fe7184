// What training changes about an image.

#ifndef OARLOCK_DATA_IMAGES_IMAGE_TRANSFORM_H_
#define OARLOCK_DATA_IMAGES_IMAGE_TRANSFORM_H_

#include <cstdint>
#include <optional>

#include "absl/status/statusor.h"
#include "data/images/image_dataset.h"
#include "data/order/distributed_batch_sampler.h"

namespace oarlock::data {

// What is random about an image in training. All of it follows from the job's
// seed, the sample's repeat and its example alone, so it is the same on any
// number of ranks and threads.
struct Augmentation {
  static constexpr uint32_t kMaxPadding = 1024;

  // Black pixels on each side, after which the image's size is cut out at a
  // random place (He et al., "Deep residual learning", CVPR 2016, section 4.2,
  // has 4); 0: nothing is moved.
  uint32_t padding = 0;
  // Mirrored left to right in half of the cases.
  bool flip = false;
  // Where files hold more than the shape takes, a random part of them
  // (ImageDataset::Pixels).
  bool random_area = false;
};

// From bytes to bytes: the network's first layer makes numbers of them
// (NewImageInput, nn/image_layers.h).
//
// Immutable and thread-safe.
class ImageTransform {
 public:
  // InvalidArgument when a number is outside what is said above.
  static absl::StatusOr<ImageTransform> Create(const ImageShape& shape,
                                               const Augmentation& augmentation,
                                               uint64_t seed);

  const ImageShape& shape() const { return shape_; }

  // For ImageDataset::Pixels.
  std::optional<uint64_t> AreaSeed(const Sample& sample) const;

  // Pixels [shape], augmented, to `out` [shape], which is other memory.
  void Apply(const Sample& sample, const uint8_t* pixels, uint8_t* out) const;

 private:
  ImageTransform() = default;

  ImageShape shape_;
  Augmentation augmentation_;
  uint64_t seed_ = 0;
};

}  // namespace oarlock::data

#endif  // OARLOCK_DATA_IMAGES_IMAGE_TRANSFORM_H_
