#include "worker/data/images/image_transform.h"

#include <gtest/gtest.h>

#include <limits>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "base/random.h"

namespace oarlock {
namespace {

constexpr uint64_t kSeed = 8;

std::vector<uint8_t> RandomPixels(const ImageShape& shape) {
  RandomSequence random(kSeed);
  std::vector<uint8_t> pixels(shape.size());
  for (uint8_t& x : pixels) x = static_cast<uint8_t>(random());
  return pixels;
}

ImageTransform Make(const ImageShape& shape, const Normalisation& normalisation,
                    const Augmentation& augmentation, uint64_t seed = kSeed) {
  auto transform =
      ImageTransform::Create(shape, normalisation, augmentation, seed);
  EXPECT_TRUE(transform.ok()) << transform.status();
  return *transform;
}

std::vector<float> Apply(const ImageTransform& transform, const Sample& sample,
                         const std::vector<uint8_t>& pixels) {
  std::vector<float> numbers(pixels.size());
  transform.Apply(sample, pixels.data(), numbers.data());
  return numbers;
}

// The byte at a place of the image moved down and right, then mirrored.
int Moved(const ImageShape& shape, const std::vector<uint8_t>& pixels, int down,
          int right, bool flip, int y, int x, int c) {
  const int width = static_cast<int>(shape.width);
  const int from_x = (flip ? width - 1 - x : x) - right;
  const int from_y = y - down;
  if (from_x < 0 || from_x >= width || from_y < 0 ||
      from_y >= static_cast<int>(shape.height)) {
    return 0;
  }
  return pixels[(from_y * width + from_x) * shape.channels + c];
}

struct Move {
  int down, right;
  bool flip;
  auto operator<=>(const Move&) const = default;
};

// Which move makes `numbers` (bytes / 255) of `pixels`, if one does.
std::optional<Move> MoveOf(const ImageShape& shape,
                           const std::vector<uint8_t>& pixels,
                           const std::vector<float>& numbers, int padding) {
  for (int down = -padding; down <= padding; ++down) {
    for (int right = -padding; right <= padding; ++right) {
      for (const bool flip : {false, true}) {
        bool same = true;
        size_t i = 0;
        for (int y = 0; y < static_cast<int>(shape.height); ++y) {
          for (int x = 0; x < static_cast<int>(shape.width); ++x) {
            for (int c = 0; c < static_cast<int>(shape.channels); ++c, ++i) {
              const int byte = Moved(shape, pixels, down, right, flip, y, x, c);
              same = same && std::abs(numbers[i] * 255 - byte) < 1e-3;
            }
          }
        }
        if (same) return Move{down, right, flip};
      }
    }
  }
  return std::nullopt;
}

TEST(ImageTransformTest, NumbersAreNormalisedByChannel) {
  const ImageShape shape = {6, 5, 3};
  const std::vector<uint8_t> pixels = RandomPixels(shape);
  const Normalisation normalisation = Cifar10Normalisation();
  const std::vector<float> numbers =
      Apply(Make(shape, normalisation, {}), {}, pixels);
  for (size_t i = 0; i < pixels.size(); ++i) {
    EXPECT_NEAR(numbers[i],
                (pixels[i] / 255.0 - normalisation.mean[i % 3]) /
                    normalisation.stddev[i % 3],
                1e-6);
  }
  // One number stands for all channels.
  const std::vector<float> alike =
      Apply(Make(shape, {.mean = {0.5f}, .stddev = {0.25f}}, {}), {}, pixels);
  for (size_t i = 0; i < pixels.size(); ++i) {
    EXPECT_NEAR(alike[i], (pixels[i] / 255.0 - 0.5) / 0.25, 1e-6);
  }
}

TEST(ImageTransformTest, EveryMoveComesAndNoOther) {
  for (const ImageShape shape : {ImageShape{7, 5, 1}, ImageShape{4, 9, 3}}) {
    const std::vector<uint8_t> pixels = RandomPixels(shape);
    const ImageTransform transform =
        Make(shape, {}, {.padding = 2, .flip = true});
    std::set<Move> seen;
    for (uint64_t example = 0; example < 600; ++example) {
      const std::optional<Move> move =
          MoveOf(shape, pixels,
                 Apply(transform, {.example = example, .pass = 3}, pixels), 2);
      ASSERT_TRUE(move.has_value()) << "seed " << kSeed << " " << example;
      seen.insert(*move);
    }
    EXPECT_EQ(seen.size(), 50u);
  }
}

TEST(ImageTransformTest, PaddingMayBeWiderThanTheImage) {
  const ImageShape shape = {2, 3, 1};
  const std::vector<uint8_t> pixels(shape.size(), 255);
  const ImageTransform transform = Make(shape, {}, {.padding = 5});
  int num_black = 0;
  for (uint64_t example = 0; example < 200; ++example) {
    for (const float x : Apply(transform, {.example = example}, pixels)) {
      ASSERT_TRUE(x == 0 || std::abs(x - 1) < 1e-6);
      num_black += x == 0;
    }
  }
  EXPECT_GT(num_black, 200);
}

TEST(ImageTransformTest, SeedPassAndExampleDecideTheMoveAlone) {
  const ImageShape shape = {16, 16, 1};
  const std::vector<uint8_t> pixels = RandomPixels(shape);
  const Augmentation augmentation = {.padding = 8, .flip = true};
  const ImageTransform transform = Make(shape, {}, augmentation, 1);
  const Sample sample = {.example = 7, .pass = 3};
  const std::vector<float> first = Apply(transform, sample, pixels);
  EXPECT_EQ(first, Apply(Make(shape, {}, augmentation, 1), sample, pixels));
  int num_other = 0;
  for (uint64_t other = 0; other < 10; ++other) {
    if (other != 7) {
      num_other +=
          first != Apply(transform, {.example = other, .pass = 3}, pixels);
    }
    if (other != 3) {
      num_other +=
          first != Apply(transform, {.example = 7, .pass = other}, pixels);
    }
    if (other != 1) {
      num_other +=
          first != Apply(Make(shape, {}, augmentation, other), sample, pixels);
    }
  }
  EXPECT_GE(num_other, 24);  // of 27, one in 578 is the same by chance
}

TEST(ImageTransformTest, WithoutAugmentationEveryPassIsTheSame) {
  const ImageShape shape = {8, 8, 3};
  const std::vector<uint8_t> pixels = RandomPixels(shape);
  const ImageTransform transform = Make(shape, {}, {});
  EXPECT_EQ(Apply(transform, {.example = 1, .pass = 1}, pixels),
            Apply(transform, {.example = 1, .pass = 2}, pixels));
  EXPECT_EQ(transform.AreaSeed({.example = 1}), std::nullopt);
  const ImageTransform areas = Make(shape, {}, {.random_area = true});
  EXPECT_NE(areas.AreaSeed({.example = 1}), std::nullopt);
  EXPECT_NE(areas.AreaSeed({.example = 1}), areas.AreaSeed({.example = 2}));
  EXPECT_EQ(areas.AreaSeed({.example = 1}), areas.AreaSeed({.example = 1}));
}

TEST(ImageTransformTest, NumbersOutOfRangeAreRefusedByName) {
  const ImageShape shape = {8, 8, 3};
  const auto refused = [&](const Normalisation& normalisation,
                           const Augmentation& augmentation,
                           const std::string& name) {
    const absl::Status status =
        ImageTransform::Create(shape, normalisation, augmentation, 1).status();
    EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument) << name;
    EXPECT_NE(status.message().find(name), std::string::npos) << status;
  };
  refused({.mean = {0, 0}}, {}, "mean is 0,0");
  refused({.mean = {}}, {}, "mean");
  refused({.mean = {std::numeric_limits<float>::quiet_NaN()}}, {}, "mean");
  refused({.stddev = {1, 0, 1}}, {}, "stddev is 1,0,1");
  refused({}, {.padding = 2000}, "padding is 2000");
}

}  // namespace
}  // namespace oarlock
