#include "data/images/synthetic_images.h"

#include <algorithm>
#include <cmath>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"
#include "base/random.h"
#include "base/status_macros.h"

namespace oarlock::data {
namespace {

constexpr uint64_t kPatternPurpose = 0x7061747465726e73;
// Number of knots of a pattern along a side; the pattern is linear between
// them.
constexpr size_t kKnots = 5;
// In steps of a byte: the amplitude of patterns and the standard deviation of
// noise.
constexpr double kAmplitude = 60;
constexpr double kNoise = 20;

absl::Status Refuse(absl::string_view field, const std::string& value,
                    const std::string& legal) {
  return absl::InvalidArgumentError(
      absl::StrCat("synthetic images: ", field, " is ", value, "; legal is ",
                   legal, "; correct the data set's options"));
}

absl::Status Check(const SyntheticImagesOptions& options) {
  const auto [height, width, channels] = options.shape;
  constexpr uint32_t kMaxSide = MemoryImages::kMaxSide;
  if (height < 1 || height > kMaxSide || width < 1 || width > kMaxSide ||
      channels < 1 || channels > 16) {
    return Refuse(
        "shape", absl::StrCat(height, " x ", width, " x ", channels),
        absl::StrCat("sides of 1 to ", kMaxSide, " and 1 to 16 channels"));
  }
  if (options.num_classes < 2 ||
      options.num_classes > SyntheticImagesOptions::kMaxClasses) {
    return Refuse("num_classes", absl::StrCat(options.num_classes),
                  absl::StrCat("2 to ", SyntheticImagesOptions::kMaxClasses));
  }
  const uint64_t most = MemoryImages::kMaxBytes / options.shape.size();
  if (options.num_examples < 1 || options.num_examples > most) {
    return Refuse("num_examples", absl::StrCat(options.num_examples),
                  absl::StrCat("1 to ", most, " of this shape"));
  }
  return absl::OkStatus();
}

// The value, at a place in [0, 1), of a pattern with `knots` [kKnots, kKnots].
double At(const double* knots, double y, double x) {
  const double row = y * (kKnots - 1);
  const double column = x * (kKnots - 1);
  const size_t top = static_cast<size_t>(row);
  const size_t left = static_cast<size_t>(column);
  const double down = row - static_cast<double>(top);
  const double right = column - static_cast<double>(left);
  const double* corner = knots + top * kKnots + left;
  return (corner[0] * (1 - right) + corner[1] * right) * (1 - down) +
         (corner[kKnots] * (1 - right) + corner[kKnots + 1] * right) * down;
}

// The place of a pixel on a side of `length` pixels, moved by `shift` and
// clamped to [0, 1).
double PlaceOf(uint32_t pixel, double shift, uint32_t length) {
  const double place = (pixel + 0.5) / length + shift;
  return std::clamp(place, 0.0, 0.999999);
}

void Draw(const SyntheticImagesOptions& options, uint32_t label,
          RandomSequence* random, uint8_t* pixels) {
  const auto [height, width, channels] = options.shape;
  const double down = (random->Uniform() - 0.5) / 4;
  const double right = (random->Uniform() - 0.5) / 4;
  const double contrast = 0.6 + 0.8 * random->Uniform();
  const double brightness = 128 + 40 * (random->Uniform() - 0.5);
  for (uint32_t c = 0; c < channels; ++c) {
    double knots[kKnots * kKnots];
    const uint64_t pattern = DeriveSeed(
        DeriveSeed(DeriveSeed(options.seed, kPatternPurpose), label), c);
    for (size_t i = 0; i < kKnots * kKnots; ++i) {
      knots[i] = RandomNormal(pattern, i);
    }
    for (uint32_t y = 0; y < height; ++y) {
      for (uint32_t x = 0; x < width; ++x) {
        // The sum of three uniform numbers is close enough to a normal number.
        const double noise = 2 * (random->Uniform() + random->Uniform() +
                                  random->Uniform() - 1.5);
        const double value =
            brightness + kNoise * noise +
            contrast * kAmplitude *
                At(knots, PlaceOf(y, down, height), PlaceOf(x, right, width));
        pixels[(size_t{y} * width + x) * channels + c] =
            static_cast<uint8_t>(std::clamp(value, 0.0, 255.0));
      }
    }
  }
}

}  // namespace

absl::StatusOr<std::unique_ptr<MemoryImages>> NewSyntheticImages(
    const SyntheticImagesOptions& options) {
  OARLOCK_RETURN_IF_ERROR(Check(options));
  const size_t image_size = options.shape.size();
  std::vector<uint8_t> pixels(options.num_examples * image_size);
  std::vector<uint32_t> labels(options.num_examples);
  const uint64_t split_seed =
      DeriveSeed(options.seed, options.split == ImageSplit::kTrain ? 1 : 2);
  for (uint64_t i = 0; i < options.num_examples; ++i) {
    RandomSequence random(DeriveSeed(split_seed, i));
    labels[i] = static_cast<uint32_t>(random.Below(options.num_classes));
    Draw(options, labels[i], &random, pixels.data() + i * image_size);
  }
  return std::make_unique<MemoryImages>(options.shape, options.num_classes,
                                        std::move(pixels), std::move(labels));
}

}  // namespace oarlock::data
