#include "data/images/resize.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <vector>

#include "base/random.h"

namespace oarlock::data {
namespace {

constexpr uint64_t kSeed = 23;

RgbImage RandomImage(RandomSequence& random, uint32_t height, uint32_t width) {
  RgbImage image = {.height = height, .width = width, .pixels = {}};
  image.pixels.resize(size_t{3} * height * width);
  for (uint8_t& x : image.pixels) x = static_cast<uint8_t>(random());
  return image;
}

// Weight of source pixel `at` for a result pixel centred on `centre`.
double Weight(double centre, double reach, size_t at) {
  return std::max(0.0,
                  1 - std::abs(static_cast<double>(at) + 0.5 - centre) / reach);
}

// One pixel of the result from all pixels of the image, in doubles.
double Naive(const RgbImage& image, const ImageArea& area, uint32_t height,
             uint32_t width, size_t y, size_t x, int c) {
  const double down = area.height / height;
  const double right = area.width / width;
  const double row = area.top + (static_cast<double>(y) + 0.5) * down;
  const double column = area.left + (static_cast<double>(x) + 0.5) * right;
  double sum = 0, weights = 0;
  for (size_t i = 0; i < image.height; ++i) {
    if (i + 1.0 <= area.top || i >= area.top + area.height) continue;
    for (size_t j = 0; j < image.width; ++j) {
      if (j + 1.0 <= area.left || j >= area.left + area.width) continue;
      const double weight = Weight(row, std::max(down, 1.0), i) *
                            Weight(column, std::max(right, 1.0), j);
      sum += weight * image.pixels[(i * image.width + j) * 3 + c];
      weights += weight;
    }
  }
  return sum / weights;
}

TEST(ResizeTest, AgreesWithALoopOverAllPixels) {
  RandomSequence random(kSeed);
  for (int trial = 0; trial < 60; ++trial) {
    SCOPED_TRACE(testing::Message() << "seed " << kSeed << " trial " << trial);
    const uint32_t height = 1 + static_cast<uint32_t>(random.Below(40));
    const uint32_t width = 1 + static_cast<uint32_t>(random.Below(40));
    const RgbImage image = RandomImage(random, height, width);
    ImageArea area;
    area.height = height * (0.1 + 0.9 * random.Uniform());
    area.width = width * (0.1 + 0.9 * random.Uniform());
    area.top = (height - area.height) * random.Uniform();
    area.left = (width - area.width) * random.Uniform();
    const uint32_t to_height = 1 + static_cast<uint32_t>(random.Below(30));
    const uint32_t to_width = 1 + static_cast<uint32_t>(random.Below(30));
    std::vector<uint8_t> pixels(size_t{3} * to_height * to_width);
    ResizeArea(image, area, to_height, to_width, pixels.data());
    for (size_t y = 0; y < to_height; ++y) {
      for (size_t x = 0; x < to_width; ++x) {
        for (int c = 0; c < 3; ++c) {
          ASSERT_NEAR(pixels[(y * to_width + x) * 3 + c],
                      Naive(image, area, to_height, to_width, y, x, c), 0.51)
              << y << ", " << x;
        }
      }
    }
  }
}

TEST(ResizeTest, TheSameSizeIsTheSameImage) {
  RandomSequence random(kSeed);
  const RgbImage image = RandomImage(random, 21, 34);
  std::vector<uint8_t> pixels(image.pixels.size());
  ResizeArea(image, {.height = 21, .width = 34}, 21, 34, pixels.data());
  EXPECT_EQ(pixels, image.pixels);
}

TEST(ResizeTest, OneColourStaysThatColour) {
  for (const uint8_t colour : {0, 1, 127, 255}) {
    const RgbImage image = {.height = 300,
                            .width = 200,
                            .pixels = std::vector<uint8_t>(180'000, colour)};
    std::vector<uint8_t> pixels(3 * 17 * 19);
    ResizeArea(image, {.top = 1.5, .left = 2.25, .height = 250, .width = 190},
               17, 19, pixels.data());
    EXPECT_EQ(pixels, std::vector<uint8_t>(pixels.size(), colour));
  }
}

}  // namespace
}  // namespace oarlock::data
