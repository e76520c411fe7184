#include "data/images/image_subset.h"

#include <utility>

#include "base/check.h"

namespace oarlock::data {

ImageSubset::ImageSubset(const ImageDataset* images,
                         std::vector<uint64_t> examples)
    : images_(images), examples_(std::move(examples)) {
  for (const uint64_t example : examples_) {
    OARLOCK_CHECK(example < images_->size());
  }
}

absl::StatusOr<const uint8_t*> ImageSubset::Pixels(
    uint64_t example, std::optional<uint64_t> area_seed,
    uint8_t* scratch) const {
  OARLOCK_CHECK(example < examples_.size());
  return images_->Pixels(examples_[example], area_seed, scratch);
}

}  // namespace oarlock::data
