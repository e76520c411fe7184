#include "worker/data/images/image_transform.h"

#include <algorithm>
#include <cmath>
#include <cstring>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/string_view.h"
#include "base/random.h"
#include "base/status_macros.h"

namespace oarlock {
namespace {

// Set the draws of an image apart from other uses of the seed.
constexpr uint64_t kPlacePurpose = 0x6175676d656e7431;
constexpr uint64_t kAreaPurpose = 0x6175676d656e7432;

uint64_t SeedOf(uint64_t seed, uint64_t purpose, const Sample& sample) {
  return DeriveSeed(DeriveSeed(DeriveSeed(seed, purpose), sample.pass),
                    sample.example);
}

absl::Status CheckChannels(absl::string_view field,
                           const std::vector<float>& values, uint32_t channels,
                           bool positive) {
  bool good = values.size() == 1 || values.size() == channels;
  for (const float x : values) {
    good = good && std::isfinite(x) && (x > 0 || !positive);
  }
  if (good) return absl::OkStatus();
  return absl::InvalidArgumentError(absl::StrCat(
      "normalisation: ", field, " is ", absl::StrJoin(values, ","),
      "; legal are 1 or ", channels, " finite numbers",
      positive ? " above 0" : "", "; correct the data set's options"));
}

// Writes row [width, channels] to `moved`, `shift` pixels to the right of
// where it was; black where it was not. Then mirrors it if told to.
void MoveRow(const uint8_t* row, const ImageShape& shape, int shift, bool flip,
             uint8_t* moved) {
  const size_t channels = shape.channels;
  const int width = static_cast<int>(shape.width);
  const int from = std::clamp(-shift, 0, width);
  const int to = std::clamp(width - shift, 0, width);
  std::memset(moved, 0, width * channels);
  if (from < to) {
    std::memcpy(moved + (from + shift) * channels, row + from * channels,
                (to - from) * channels);
  }
  if (!flip) return;
  for (int left = 0, right = width - 1; left < right; ++left, --right) {
    std::swap_ranges(moved + left * channels, moved + (left + 1) * channels,
                     moved + right * channels);
  }
}

}  // namespace

Normalisation MnistNormalisation() {
  return {.mean = {0.1307f}, .stddev = {0.3081f}};
}

Normalisation Cifar10Normalisation() {
  return {.mean = {0.4914f, 0.4822f, 0.4465f},
          .stddev = {0.2470f, 0.2435f, 0.2616f}};
}

Normalisation ImageNetNormalisation() {
  return {.mean = {0.485f, 0.456f, 0.406f}, .stddev = {0.229f, 0.224f, 0.225f}};
}

absl::StatusOr<ImageTransform> ImageTransform::Create(
    const ImageShape& shape, const Normalisation& normalisation,
    const Augmentation& augmentation, uint64_t seed) {
  OARLOCK_RETURN_IF_ERROR(
      CheckChannels("mean", normalisation.mean, shape.channels, false));
  OARLOCK_RETURN_IF_ERROR(
      CheckChannels("stddev", normalisation.stddev, shape.channels, true));
  if (augmentation.padding > Augmentation::kMaxPadding) {
    return absl::InvalidArgumentError(absl::StrCat(
        "augmentation: padding is ", augmentation.padding, "; legal is 0 to ",
        Augmentation::kMaxPadding, "; correct the data set's options"));
  }
  ImageTransform transform;
  transform.shape_ = shape;
  transform.augmentation_ = augmentation;
  transform.seed_ = seed;
  const size_t row_bytes = size_t{shape.width} * shape.channels;
  for (size_t i = 0; i < row_bytes; ++i) {
    const size_t channel = i % shape.channels;
    const auto of_channel = [channel](const std::vector<float>& values) {
      return double{values.size() == 1 ? values[0] : values[channel]};
    };
    const double stddev = of_channel(normalisation.stddev);
    transform.scale_.push_back(static_cast<float>(1 / (255 * stddev)));
    transform.shift_.push_back(
        static_cast<float>(-of_channel(normalisation.mean) / stddev));
  }
  return transform;
}

std::optional<uint64_t> ImageTransform::AreaSeed(const Sample& sample) const {
  if (!augmentation_.random_area) return std::nullopt;
  return SeedOf(seed_, kAreaPurpose, sample);
}

void ImageTransform::Apply(const Sample& sample, const uint8_t* pixels,
                           float* numbers) const {
  const size_t row_bytes = scale_.size();
  const int padding = static_cast<int>(augmentation_.padding);
  // Where the image comes to lie; 0, 0 without padding.
  RandomSequence random(SeedOf(seed_, kPlacePurpose, sample));
  const int down = static_cast<int>(random.Below(2 * padding + 1)) - padding;
  const int right = static_cast<int>(random.Below(2 * padding + 1)) - padding;
  const bool flip = augmentation_.flip && random.Below(2) == 1;
  const bool moves = right != 0 || flip;
  std::vector<uint8_t> moved(moves ? row_bytes : 0);
  const std::vector<uint8_t> black(down != 0 ? row_bytes : 0);
  for (int y = 0; y < static_cast<int>(shape_.height); ++y) {
    const int from = y - down;
    const bool inside = from >= 0 && from < static_cast<int>(shape_.height);
    const uint8_t* row = inside ? pixels + from * row_bytes : black.data();
    if (moves && inside) {
      MoveRow(row, shape_, right, flip, moved.data());
      row = moved.data();
    }
    const float* __restrict scale = scale_.data();
    const float* __restrict shift = shift_.data();
    float* __restrict out = numbers + y * row_bytes;
    for (size_t i = 0; i < row_bytes; ++i) {
      out[i] = static_cast<float>(row[i]) * scale[i] + shift[i];
    }
  }
}

}  // namespace oarlock
