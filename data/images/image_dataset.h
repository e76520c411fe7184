// Images of one shape with the numbers of their classes.

#ifndef OARLOCK_DATA_IMAGES_IMAGE_DATASET_H_
#define OARLOCK_DATA_IMAGES_IMAGE_DATASET_H_

#include <cstddef>
#include <cstdint>
#include <optional>
#include <vector>

#include "absl/status/statusor.h"

namespace oarlock::data {

// A tensor of images is [height, width, channels], channels innermost.
struct ImageShape {
  uint32_t height = 0;
  uint32_t width = 0;
  uint32_t channels = 0;

  constexpr size_t size() const { return size_t{height} * width * channels; }
  friend bool operator==(const ImageShape&, const ImageShape&) = default;
};

// The two parts of a data set.
enum class ImageSplit { kTrain, kTest };

// Constant after construction, so thread-safe.
class ImageDataset {
 public:
  virtual ~ImageDataset() = default;

  // Examples are numbered 0 to size() - 1.
  virtual uint64_t size() const = 0;
  virtual ImageShape shape() const = 0;
  // Labels are below this.
  virtual uint32_t num_classes() const = 0;
  virtual uint32_t label(uint64_t example) const = 0;

  // The pixels of an example, [shape()]. They are in `scratch`
  // ([shape().size()]) or in memory of the data set. Where a file holds more
  // than the shape, `area_seed` selects a random part of it; without a seed it
  // is the middle. An error names the file. REQUIRES: example < size().
  virtual absl::StatusOr<const uint8_t*> Pixels(
      uint64_t example, std::optional<uint64_t> area_seed,
      uint8_t* scratch) const = 0;
};

// All pixels in memory.
class MemoryImages : public ImageDataset {
 public:
  // The most bytes of pixels that readers of files accept.
  static constexpr uint64_t kMaxBytes = uint64_t{16} << 30;
  // The most pixels along a side.
  static constexpr uint32_t kMaxSide = 4096;

  // pixels [labels.size(), shape]; labels below num_classes. Anything else
  // crashes.
  MemoryImages(const ImageShape& shape, uint32_t num_classes,
               std::vector<uint8_t> pixels, std::vector<uint32_t> labels);

  uint64_t size() const override { return labels_.size(); }
  ImageShape shape() const override { return shape_; }
  uint32_t num_classes() const override { return num_classes_; }
  uint32_t label(uint64_t example) const override { return labels_[example]; }
  absl::StatusOr<const uint8_t*> Pixels(uint64_t example,
                                        std::optional<uint64_t> area_seed,
                                        uint8_t* scratch) const override;

 private:
  const ImageShape shape_;
  const uint32_t num_classes_;
  const std::vector<uint8_t> pixels_;
  const std::vector<uint32_t> labels_;
};

}  // namespace oarlock::data

#endif  // OARLOCK_DATA_IMAGES_IMAGE_DATASET_H_
