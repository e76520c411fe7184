#include "data/images/grey_images.h"

#include <utility>
#include <vector>

#include "base/check.h"
#include "base/status_macros.h"

namespace oarlock::data {
namespace {

// The weights of red, green and blue in 65536ths.
constexpr uint32_t kRed = 19595;
constexpr uint32_t kGreen = 38470;
constexpr uint32_t kBlue = 7471;
static_assert(kRed + kGreen + kBlue == 1 << 16);

}  // namespace

GreyImages::GreyImages(std::unique_ptr<ImageDataset> images)
    : images_(std::move(images)) {
  OARLOCK_CHECK(images_->shape().channels == 3);
}

absl::StatusOr<const uint8_t*> GreyImages::Pixels(
    uint64_t example, std::optional<uint64_t> area_seed,
    uint8_t* scratch) const {
  std::vector<uint8_t> color_scratch(images_->shape().size());
  OARLOCK_ASSIGN_OR_RETURN(
      const uint8_t* const color,
      images_->Pixels(example, area_seed, color_scratch.data()));
  const size_t num_pixels = shape().size();
  for (size_t i = 0; i < num_pixels; ++i) {
    const uint8_t* const pixel = color + 3 * i;
    scratch[i] = static_cast<uint8_t>(
        (kRed * pixel[0] + kGreen * pixel[1] + kBlue * pixel[2] + (1 << 15)) >>
        16);
  }
  return scratch;
}

}  // namespace oarlock::data
