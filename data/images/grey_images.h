// Turns images in color into grey images.

#ifndef OARLOCK_DATA_IMAGES_GREY_IMAGES_H_
#define OARLOCK_DATA_IMAGES_GREY_IMAGES_H_

#include <cstdint>
#include <memory>
#include <optional>

#include "absl/status/statusor.h"
#include "data/images/image_dataset.h"

namespace oarlock::data {

// The luma of each pixel of `images`: .299 red + .587 green + .114 blue (ITU-R
// BT.601), rounded. Pixels that are already grey keep their value. `images`
// must have three channels; with another number the constructor crashes.
class GreyImages : public ImageDataset {
 public:
  explicit GreyImages(std::unique_ptr<ImageDataset> images);

  uint64_t size() const override { return images_->size(); }
  ImageShape shape() const override {
    ImageShape shape = images_->shape();
    shape.channels = 1;
    return shape;
  }
  uint32_t num_classes() const override { return images_->num_classes(); }
  uint32_t label(uint64_t example) const override {
    return images_->label(example);
  }
  absl::StatusOr<const uint8_t*> Pixels(uint64_t example,
                                        std::optional<uint64_t> area_seed,
                                        uint8_t* scratch) const override;

 private:
  const std::unique_ptr<ImageDataset> images_;
};

}  // namespace oarlock::data

#endif  // OARLOCK_DATA_IMAGES_GREY_IMAGES_H_
