#include "examples/images/folder_images.h"

#include <gtest/gtest.h>

#include <filesystem>
#include <optional>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "tests/data/images/image_bytes.h"
#include "tests/data/test_files.h"

namespace images {
namespace {

constexpr uint32_t kSide = 28;

// Two grey images of each of `num_classes` classes, of one byte each.
void WriteSplit(const oarlock::TestFolder& folder, const std::string& split,
                uint32_t num_classes) {
  for (uint32_t c = 0; c < num_classes; ++c) {
    std::filesystem::create_directories(
        folder.Path(absl::StrCat(split, "/", c)));
    for (uint32_t i = 0; i < 2; ++i) {
      folder.Write(absl::StrCat(split, "/", c, "/", i, ".png"),
                   oarlock::data::PngFile(
                       kSide, kSide, 1,
                       std::vector<uint8_t>(kSide * kSide,
                                            static_cast<uint8_t>(20 * c + i))));
    }
  }
}

TEST(FolderImagesTest, GreyFilesComeAsTheirOwnBytes) {
  const oarlock::TestFolder folder;
  EXPECT_FALSE(IsFileList(folder.path()));
  WriteSplit(folder, "train", 10);
  WriteSplit(folder, "test", 10);
  EXPECT_TRUE(IsFileList(folder.path()));
  const auto data = OpenFileList(folder.path(), kSide, 1);
  ASSERT_TRUE(data.ok()) << data.status();
  EXPECT_TRUE(data->is_file_list);
  for (const auto* split : {&data->train, &data->test}) {
    const oarlock::data::ImageDataset& images = **split;
    ASSERT_EQ(images.size(), 20u);
    EXPECT_EQ(images.shape(), (oarlock::data::ImageShape{kSide, kSide, 1}));
    EXPECT_EQ(images.num_classes(), 10u);
    for (uint64_t i = 0; i < 20; ++i) {
      std::vector<uint8_t> scratch(kSide * kSide);
      const auto pixels = images.Pixels(i, std::nullopt, scratch.data());
      ASSERT_TRUE(pixels.ok()) << pixels.status();
      const auto byte = static_cast<uint8_t>(20 * (i / 2) + i % 2);
      EXPECT_EQ(std::vector<uint8_t>(*pixels, *pixels + kSide * kSide),
                std::vector<uint8_t>(kSide * kSide, byte));
      EXPECT_EQ(images.label(i), i / 2);
    }
  }
  const auto color = OpenFileList(folder.path(), 32, 3);
  ASSERT_TRUE(color.ok()) << color.status();
  EXPECT_EQ(color->train->shape(), (oarlock::data::ImageShape{32, 32, 3}));
}

TEST(FolderImagesTest, AnotherNumberOfClassesIsRefused) {
  const oarlock::TestFolder folder;
  WriteSplit(folder, "train", 9);
  WriteSplit(folder, "test", 9);
  const absl::Status status = OpenFileList(folder.path(), kSide, 1).status();
  EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument);
  EXPECT_NE(status.message().find("has 9 classes; legal"), std::string::npos)
      << status;
}

}  // namespace
}  // namespace images
