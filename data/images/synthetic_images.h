// Images that need no file and whose classes a network can learn.

#ifndef OARLOCK_DATA_IMAGES_SYNTHETIC_IMAGES_H_
#define OARLOCK_DATA_IMAGES_SYNTHETIC_IMAGES_H_

#include <cstdint>
#include <memory>

#include "absl/status/statusor.h"
#include "data/images/image_dataset.h"

namespace oarlock::data {

struct SyntheticImagesOptions {
  static constexpr uint32_t kMaxClasses = 1u << 20;

  ImageShape shape = {.height = 28, .width = 28, .channels = 1};
  // 2 to kMaxClasses.
  uint32_t num_classes = 10;
  // At least 1.
  uint64_t num_examples = 2048;
  uint64_t seed = 1;
  ImageSplit split = ImageSplit::kTrain;
};

// Each class is a smooth pattern, drawn from the seed. An image is the pattern
// of its class, moved by up to an eighth of its sides, with its own contrast
// and brightness, and with noise. Both splits have the same classes and
// different images. Classes are drawn with equal probability. The same options
// give the same bytes everywhere.
//
// InvalidArgument when a number is outside the ranges given here and in
// MemoryImages.
absl::StatusOr<std::unique_ptr<MemoryImages>> NewSyntheticImages(
    const SyntheticImagesOptions& options);

}  // namespace oarlock::data

#endif  // OARLOCK_DATA_IMAGES_SYNTHETIC_IMAGES_H_
