#include "data/images/image_dataset.h"

#include <utility>

#include "base/check.h"

namespace oarlock::data {

MemoryImages::MemoryImages(const ImageShape& shape, uint32_t num_classes,
                           std::vector<uint8_t> pixels,
                           std::vector<uint32_t> labels)
    : shape_(shape),
      num_classes_(num_classes),
      pixels_(std::move(pixels)),
      labels_(std::move(labels)) {
  OARLOCK_CHECK(pixels_.size() == labels_.size() * shape_.size());
  for (const uint32_t label : labels_) OARLOCK_CHECK(label < num_classes_);
}

absl::StatusOr<const uint8_t*> MemoryImages::Pixels(uint64_t example,
                                                    std::optional<uint64_t>,
                                                    uint8_t*) const {
  OARLOCK_CHECK(example < labels_.size());
  return pixels_.data() + example * shape_.size();
}

}  // namespace oarlock::data
