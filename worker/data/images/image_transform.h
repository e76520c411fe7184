// From pixels to the numbers that a network takes.

#ifndef OARLOCK_WORKER_DATA_IMAGES_IMAGE_TRANSFORM_H_
#define OARLOCK_WORKER_DATA_IMAGES_IMAGE_TRANSFORM_H_

#include <cstddef>
#include <cstdint>
#include <optional>
#include <vector>

#include "absl/status/statusor.h"
#include "worker/data/distributed_batch_sampler.h"
#include "worker/data/images/image_dataset.h"

namespace oarlock {

// A byte becomes (byte / 255 - mean) / stddev, by channel; one number stands
// for all channels. Up to rounding: it is computed as byte * a + b.
struct Normalisation {
  std::vector<float> mean = {0};
  // Above 0.
  std::vector<float> stddev = {1};
};

// Mean and deviation of the training images: of MNIST, of CIFAR-10, and those
// that are customary for ImageNet.
Normalisation MnistNormalisation();
Normalisation Cifar10Normalisation();
Normalisation ImageNetNormalisation();

// What is random about an image in training. All of it follows from the job's
// seed, the sample's pass and its example alone, so it is the same on any
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

// Immutable and thread-safe.
class ImageTransform {
 public:
  // InvalidArgument when numbers are outside what is said above, or of another
  // count than 1 or the shape's channels.
  static absl::StatusOr<ImageTransform> Create(
      const ImageShape& shape, const Normalisation& normalisation,
      const Augmentation& augmentation, uint64_t seed);

  const ImageShape& shape() const { return shape_; }

  // For ImageDataset::Pixels.
  std::optional<uint64_t> AreaSeed(const Sample& sample) const;

  // Pixels [shape], augmented and normalised, to numbers [shape].
  void Apply(const Sample& sample, const uint8_t* pixels, float* numbers) const;

 private:
  ImageTransform() = default;

  ImageShape shape_;
  Augmentation augmentation_;
  uint64_t seed_ = 0;
  // Factor and summand of each byte of an image's row, [width, channels].
  std::vector<float> scale_;
  std::vector<float> shift_;
};

}  // namespace oarlock

#endif  // OARLOCK_WORKER_DATA_IMAGES_IMAGE_TRANSFORM_H_
