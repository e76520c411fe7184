#include "data/images/image_subset.h"

#include <gtest/gtest.h>

#include <set>
#include <vector>

#include "data/images/synthetic_images.h"
#include "data/reader/file_partition.h"

namespace oarlock::data {
namespace {

TEST(ImageSubsetTest, ExamplesAreThoseOfTheWholeInTheOrderGiven) {
  const auto whole = NewSyntheticImages({.num_examples = 20});
  ASSERT_TRUE(whole.ok()) << whole.status();
  const std::vector<uint64_t> examples = {7, 0, 19, 7};
  const ImageSubset subset(whole->get(), examples);
  EXPECT_EQ(subset.size(), 4u);
  EXPECT_EQ(subset.shape(), (*whole)->shape());
  EXPECT_EQ(subset.num_classes(), (*whole)->num_classes());
  for (uint64_t i = 0; i < 4; ++i) {
    EXPECT_EQ(subset.label(i), (*whole)->label(examples[i]));
    EXPECT_EQ(*subset.Pixels(i, std::nullopt, nullptr),
              *(*whole)->Pixels(examples[i], std::nullopt, nullptr));
  }
}

// One example a file: ranks' lists of files as data sets.
TEST(ImageSubsetTest, RanksFilesMakeUpTheWhole) {
  const auto whole = NewSyntheticImages({.num_examples = 20});
  ASSERT_TRUE(whole.ok()) << whole.status();
  std::set<const uint8_t*> seen;
  for (uint32_t rank = 0; rank < 3; ++rank) {
    const auto files = FilesOfRank(20, rank, 3, UnevenRule::kDrop);
    ASSERT_TRUE(files.ok()) << files.status();
    const ImageSubset subset(whole->get(), {files->begin(), files->end()});
    EXPECT_EQ(subset.size(), 6u);
    for (uint64_t i = 0; i < subset.size(); ++i) {
      seen.insert(*subset.Pixels(i, std::nullopt, nullptr));
    }
  }
  EXPECT_EQ(seen.size(), 18u);
}

}  // namespace
}  // namespace oarlock::data
