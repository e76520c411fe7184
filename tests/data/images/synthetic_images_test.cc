#include "data/images/synthetic_images.h"

#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <string>
#include <vector>

namespace oarlock::data {
namespace {

std::unique_ptr<MemoryImages> Make(const SyntheticImagesOptions& options) {
  auto images = NewSyntheticImages(options);
  EXPECT_TRUE(images.ok()) << images.status();
  return *std::move(images);
}

const uint8_t* PixelsOf(const MemoryImages& images, uint64_t example) {
  return *images.Pixels(example, std::nullopt, nullptr);
}

bool SameBytes(const MemoryImages& a, const MemoryImages& b) {
  return a.size() == b.size() &&
         std::equal(PixelsOf(a, 0),
                    PixelsOf(a, 0) + a.size() * a.shape().size(),
                    PixelsOf(b, 0));
}

TEST(SyntheticImagesTest, OptionsDecideEveryByte) {
  const SyntheticImagesOptions options = {.num_examples = 50, .seed = 3};
  const auto images = Make(options);
  EXPECT_EQ(images->size(), 50u);
  EXPECT_TRUE(SameBytes(*images, *Make(options)));
  SyntheticImagesOptions other = options;
  other.seed = 4;
  EXPECT_FALSE(SameBytes(*images, *Make(other)));
  other = options;
  other.split = ImageSplit::kTest;
  EXPECT_FALSE(SameBytes(*images, *Make(other)));
}

// The nearest of the classes' mean training images, brightness and contrast
// taken out, tells most test images: there is something to learn, in the same
// classes, and it is not given away by one pixel.
TEST(SyntheticImagesTest, TestImagesAreOfTheTrainingImagesClasses) {
  for (const ImageShape shape :
       {ImageShape{28, 28, 1}, ImageShape{32, 32, 3}}) {
    SyntheticImagesOptions options = {.shape = shape, .num_examples = 2000};
    const auto train = Make(options);
    options.split = ImageSplit::kTest;
    options.num_examples = 500;
    const auto test = Make(options);
    const size_t n = shape.size();
    const auto normal = [n](const uint8_t* pixels) {
      std::vector<double> image(pixels, pixels + n);
      double mean = 0, squares = 0;
      for (const double x : image) mean += x / static_cast<double>(n);
      for (double& x : image) {
        x -= mean;
        squares += x * x;
      }
      for (double& x : image) x /= std::sqrt(squares);
      return image;
    };
    std::vector<std::vector<double>> means(10, std::vector<double>(n));
    std::vector<int> counts(10);
    for (uint64_t i = 0; i < train->size(); ++i) {
      const std::vector<double> image = normal(PixelsOf(*train, i));
      std::vector<double>& mean = means[train->label(i)];
      for (size_t j = 0; j < n; ++j) mean[j] += image[j];
      ++counts[train->label(i)];
    }
    for (const int count : counts) EXPECT_NEAR(count, 200, 60);
    int num_right = 0;
    for (uint64_t i = 0; i < test->size(); ++i) {
      const std::vector<double> image = normal(PixelsOf(*test, i));
      size_t best = 0;
      double most = -std::numeric_limits<double>::infinity();
      for (size_t label = 0; label < 10; ++label) {
        double product = 0, squares = 0;
        for (size_t j = 0; j < n; ++j) {
          product += image[j] * means[label][j];
          squares += means[label][j] * means[label][j];
        }
        product /= std::sqrt(squares);
        if (product > most) {
          most = product;
          best = label;
        }
      }
      num_right += best == test->label(i);
    }
    EXPECT_GT(num_right, 400) << "of 500";
  }
}

TEST(SyntheticImagesTest, NumbersOutOfRangeAreRefusedByName) {
  const auto refused = [](const SyntheticImagesOptions& options,
                          const std::string& name) {
    const absl::Status status = NewSyntheticImages(options).status();
    EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument) << name;
    EXPECT_NE(status.message().find(name), std::string::npos) << status;
  };
  refused({.shape = {0, 8, 3}}, "shape is 0 x 8 x 3");
  refused({.shape = {8, 5000, 3}}, "shape");
  refused({.num_classes = 1}, "num_classes is 1");
  refused({.num_examples = 0}, "num_examples is 0");
  refused({.num_examples = ~uint64_t{0}}, "num_examples");
}

}  // namespace
}  // namespace oarlock::data
