// A data set made of some examples of another data set.

#ifndef OARLOCK_DATA_IMAGES_IMAGE_SUBSET_H_
#define OARLOCK_DATA_IMAGES_IMAGE_SUBSET_H_

#include <cstdint>
#include <optional>
#include <vector>

#include "absl/status/statusor.h"
#include "data/images/image_dataset.h"

namespace oarlock::data {

// Example i is example examples[i] of `images`. For example, a subset is a
// rank's own files of an ImageFolder (FilesOfRank), or the first examples of a
// large data set. Nothing is copied.
class ImageSubset : public ImageDataset {
 public:
  // `images` outlives the subset. Crashes on a number that is not an example of
  // `images`.
  ImageSubset(const ImageDataset* images, std::vector<uint64_t> examples);

  uint64_t size() const override { return examples_.size(); }
  ImageShape shape() const override { return images_->shape(); }
  uint32_t num_classes() const override { return images_->num_classes(); }
  uint32_t label(uint64_t example) const override {
    return images_->label(examples_[example]);
  }
  absl::StatusOr<const uint8_t*> Pixels(uint64_t example,
                                        std::optional<uint64_t> area_seed,
                                        uint8_t* scratch) const override;

 private:
  const ImageDataset* const images_;
  const std::vector<uint64_t> examples_;
};

}  // namespace oarlock::data

#endif  // OARLOCK_DATA_IMAGES_IMAGE_SUBSET_H_
