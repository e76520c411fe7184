#include "data/images/image_transform.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "base/random.h"

namespace oarlock::data {
namespace {

constexpr uint64_t kSeed = 8;

std::vector<uint8_t> RandomPixels(const ImageShape& shape) {
  RandomSequence random(kSeed);
  std::vector<uint8_t> pixels(shape.size());
  for (uint8_t& x : pixels) x = static_cast<uint8_t>(random());
  return pixels;
}

ImageTransform Make(const ImageShape& shape, const Augmentation& augmentation,
                    uint64_t seed = kSeed) {
  auto transform = ImageTransform::Create(shape, augmentation, seed);
  EXPECT_TRUE(transform.ok()) << transform.status();
  return *transform;
}

// Over what another image has left, as in a batch that is reused.
std::vector<uint8_t> Apply(const ImageTransform& transform,
                           const Sample& sample,
                           const std::vector<uint8_t>& pixels) {
  const std::vector<uint8_t> neighbour(64, 0xa5);
  std::vector<uint8_t> out(neighbour.size() + pixels.size() + neighbour.size(),
                           0xa5);
  const auto begin = out.begin() + neighbour.size();
  transform.Apply(sample, pixels.data(), &*begin);
  EXPECT_TRUE(std::equal(neighbour.begin(), neighbour.end(), out.begin()));
  EXPECT_TRUE(std::equal(neighbour.rbegin(), neighbour.rend(), out.rbegin()));
  return std::vector<uint8_t>(begin, begin + pixels.size());
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

// Which move makes `out` of `pixels`, if one does.
std::optional<Move> MoveOf(const ImageShape& shape,
                           const std::vector<uint8_t>& pixels,
                           const std::vector<uint8_t>& out, int padding) {
  for (int down = -padding; down <= padding; ++down) {
    for (int right = -padding; right <= padding; ++right) {
      for (const bool flip : {false, true}) {
        bool same = true;
        size_t i = 0;
        for (int y = 0; y < static_cast<int>(shape.height); ++y) {
          for (int x = 0; x < static_cast<int>(shape.width); ++x) {
            for (int c = 0; c < static_cast<int>(shape.channels); ++c, ++i) {
              same = same &&
                     out[i] == Moved(shape, pixels, down, right, flip, y, x, c);
            }
          }
        }
        if (same) return Move{down, right, flip};
      }
    }
  }
  return std::nullopt;
}

TEST(ImageTransformTest, WithoutAugmentationBytesAreThoseOfTheDataset) {
  for (const ImageShape shape : {ImageShape{6, 5, 3}, ImageShape{28, 28, 1}}) {
    const std::vector<uint8_t> pixels = RandomPixels(shape);
    for (const bool random_area : {false, true}) {
      const ImageTransform transform =
          Make(shape, {.random_area = random_area});
      EXPECT_EQ(Apply(transform, {.example = 1, .repeat = 1}, pixels), pixels);
      EXPECT_EQ(Apply(transform, {.example = 1, .repeat = 2}, pixels), pixels);
    }
  }
}

TEST(ImageTransformTest, EveryMoveComesAndNoOther) {
  for (const ImageShape shape :
       {ImageShape{7, 5, 1}, ImageShape{4, 9, 3}, ImageShape{6, 4, 4}}) {
    const std::vector<uint8_t> pixels = RandomPixels(shape);
    const ImageTransform transform = Make(shape, {.padding = 2, .flip = true});
    std::set<Move> seen;
    for (uint64_t example = 0; example < 600; ++example) {
      const std::optional<Move> move = MoveOf(
          shape, pixels,
          Apply(transform, {.example = example, .repeat = 3}, pixels), 2);
      ASSERT_TRUE(move.has_value()) << "seed " << kSeed << " " << example;
      seen.insert(*move);
    }
    EXPECT_EQ(seen.size(), 50u);
  }
}

TEST(ImageTransformTest, PaddingMayBeWiderThanTheImage) {
  const ImageShape shape = {2, 3, 1};
  const std::vector<uint8_t> pixels(shape.size(), 255);
  const ImageTransform transform = Make(shape, {.padding = 5, .flip = true});
  int num_black = 0;
  for (uint64_t example = 0; example < 200; ++example) {
    for (const int x : Apply(transform, {.example = example}, pixels)) {
      ASSERT_TRUE(x == 0 || x == 255) << x;
      num_black += x == 0;
    }
  }
  EXPECT_GT(num_black, 200);
}

TEST(ImageTransformTest, SeedRepeatAndExampleDecideTheMoveAlone) {
  const ImageShape shape = {16, 16, 1};
  const std::vector<uint8_t> pixels = RandomPixels(shape);
  const Augmentation augmentation = {.padding = 8, .flip = true};
  const ImageTransform transform = Make(shape, augmentation, 1);
  const Sample sample = {.example = 7, .repeat = 3};
  const std::vector<uint8_t> first = Apply(transform, sample, pixels);
  EXPECT_EQ(first, Apply(Make(shape, augmentation, 1), sample, pixels));
  int num_other = 0;
  for (uint64_t other = 0; other < 10; ++other) {
    if (other != 7) {
      num_other +=
          first != Apply(transform, {.example = other, .repeat = 3}, pixels);
    }
    if (other != 3) {
      num_other +=
          first != Apply(transform, {.example = 7, .repeat = other}, pixels);
    }
    if (other != 1) {
      num_other +=
          first != Apply(Make(shape, augmentation, other), sample, pixels);
    }
  }
  EXPECT_GE(num_other, 24);  // of 27, one in 578 is the same by chance
}

TEST(ImageTransformTest, AreasAreRandomOnlyIfWanted) {
  const ImageShape shape = {8, 8, 3};
  EXPECT_EQ(Make(shape, {}).AreaSeed({.example = 1}), std::nullopt);
  const ImageTransform areas = Make(shape, {.random_area = true});
  EXPECT_NE(areas.AreaSeed({.example = 1}), std::nullopt);
  EXPECT_NE(areas.AreaSeed({.example = 1}), areas.AreaSeed({.example = 2}));
  EXPECT_EQ(areas.AreaSeed({.example = 1}), areas.AreaSeed({.example = 1}));
}

TEST(ImageTransformTest, PaddingOutOfRangeIsRefusedByName) {
  const ImageShape shape = {8, 8, 3};
  const uint32_t most = Augmentation::kMaxPadding;
  EXPECT_TRUE(ImageTransform::Create(shape, {.padding = most}, 1).ok());
  const absl::Status status =
      ImageTransform::Create(shape, {.padding = most + 1}, 1).status();
  EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument) << status;
  for (const char* const part : {"padding is 1025", "legal is 0 to 1024"}) {
    EXPECT_NE(status.message().find(part), std::string::npos) << status;
  }
}

}  // namespace
}  // namespace oarlock::data
