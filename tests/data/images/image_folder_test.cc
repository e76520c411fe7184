#include "data/images/image_folder.h"

#include <gtest/gtest.h>

#include <filesystem>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "tests/data/images/image_bytes.h"
#include "tests/data/test_files.h"

namespace oarlock::data {
namespace {

std::vector<uint8_t> OneColour(uint32_t height, uint32_t width, uint8_t red,
                               uint8_t green, uint8_t blue) {
  std::vector<uint8_t> pixels;
  for (uint32_t i = 0; i < height * width; ++i) {
    pixels.insert(pixels.end(), {red, green, blue});
  }
  return pixels;
}

// Red rises along the rows, green down the columns, by one a pixel.
std::vector<uint8_t> Ramp(uint32_t height, uint32_t width) {
  std::vector<uint8_t> pixels;
  for (uint32_t y = 0; y < height; ++y) {
    for (uint32_t x = 0; x < width; ++x) {
      pixels.insert(pixels.end(),
                    {static_cast<uint8_t>(x), static_cast<uint8_t>(y), 7});
    }
  }
  return pixels;
}

// Two classes of two images each, and things that are none.
void Fill(const TestFolder& folder) {
  for (const char* const name : {"cat", "dog", ".hidden"}) {
    std::filesystem::create_directory(folder.Path(name));
  }
  folder.Write("cat/2.png", PngFile(20, 30, 3, OneColour(20, 30, 9, 8, 7)));
  folder.Write("cat/10.JPEG",
               JpegFile(64, 48, 3, OneColour(64, 48, 200, 100, 50)));
  folder.Write("dog/a.jpg", JpegFile(30, 30, 3, OneColour(30, 30, 0, 0, 255)));
  folder.Write("dog/b.PNG", PngFile(100, 200, 3, Ramp(100, 200)));
  folder.Write("dog/notes.txt", "no image");
  folder.Write("dog/.c.png", "no image");
  folder.Write("readme.png", "no class");
  folder.Write(".hidden/d.png", "no class");
}

std::unique_ptr<ImageFolder> Open(const std::string& path,
                                  const ImageFolderOptions& options) {
  auto images = ImageFolder::Open(path, options);
  EXPECT_TRUE(images.ok()) << images.status();
  return *std::move(images);
}

TEST(ImageFolderTest, FoldersAreClassesInTheOrderOfTheirNames) {
  const TestFolder folder;
  Fill(folder);
  const auto images = Open(folder.path(), {.side = 16});
  EXPECT_EQ(images->size(), 4u);
  EXPECT_EQ(images->num_classes(), 2u);
  EXPECT_EQ(images->class_names(), (std::vector<std::string>{"cat", "dog"}));
  EXPECT_EQ(images->shape(), (ImageShape{16, 16, 3}));
  std::vector<std::string> paths;
  std::vector<uint32_t> labels;
  for (uint64_t i = 0; i < 4; ++i) {
    paths.push_back(images->path(i).substr(folder.path().size()));
    labels.push_back(images->label(i));
  }
  EXPECT_EQ(paths, (std::vector<std::string>{"/cat/10.JPEG", "/cat/2.png",
                                             "/dog/a.jpg", "/dog/b.PNG"}));
  EXPECT_EQ(labels, (std::vector<uint32_t>{0, 0, 1, 1}));
}

TEST(ImageFolderTest, TheMiddleOfAFileIsAlwaysTheSame) {
  const TestFolder folder;
  Fill(folder);
  const auto images = Open(folder.path(), {.side = 50, .middle_share = 0.5});
  std::vector<uint8_t> scratch(images->shape().size());
  // Half of the shorter side of 100 x 200 at its own size: rows 25 to 74,
  // columns 75 to 124.
  const auto pixels = images->Pixels(3, std::nullopt, scratch.data());
  ASSERT_TRUE(pixels.ok()) << pixels.status();
  for (int y = 0; y < 50; ++y) {
    for (int x = 0; x < 50; ++x) {
      const uint8_t* pixel = *pixels + (y * 50 + x) * 3;
      ASSERT_EQ(pixel[0], 75 + x);
      ASSERT_EQ(pixel[1], 25 + y);
      ASSERT_EQ(pixel[2], 7);
    }
  }
}

TEST(ImageFolderTest, ARandomAreaDependsOnItsSeedAlone) {
  const TestFolder folder;
  Fill(folder);
  const auto images = Open(folder.path(), {.side = 24});
  const auto read = [&](uint64_t seed) {
    std::vector<uint8_t> scratch(images->shape().size());
    const auto pixels = images->Pixels(3, seed, scratch.data());
    EXPECT_TRUE(pixels.ok()) << pixels.status();
    return scratch;
  };
  EXPECT_EQ(read(1), read(1));
  EXPECT_NE(read(1), read(2));
  // A part of the file: red rises by what the area's width makes of a pixel,
  // and area and ratio are in their ranges.
  double least = 1e9, most = 0;
  for (uint64_t seed = 0; seed < 300; ++seed) {
    const std::vector<uint8_t> pixels = read(seed);
    const auto at = [&](int y, int x, int c) {
      return static_cast<double>(pixels[(y * 24 + x) * 3 + c]);
    };
    // Inner pixels: at the border the filter is cut.
    const double width = (at(12, 20, 0) - at(12, 3, 0)) / 17 * 24;
    const double height = (at(20, 12, 1) - at(3, 12, 1)) / 17 * 24;
    const double share = width * height / (100 * 200);
    EXPECT_GT(share, 0.08 * 0.9) << "seed " << seed;
    // The largest that fits is 100 x 133.
    EXPECT_LT(share, 0.67 * 1.05) << "seed " << seed;
    EXPECT_GT(width / height, 0.75 * 0.9) << "seed " << seed;
    EXPECT_LT(width / height, 1.34 * 1.1) << "seed " << seed;
    least = std::min(least, share);
    most = std::max(most, share);
  }
  EXPECT_LT(least, 0.12);
  EXPECT_GT(most, 0.4);
}

TEST(ImageFolderTest, ColoursAreThoseOfTheFile) {
  const TestFolder folder;
  Fill(folder);
  const auto images = Open(folder.path(), {.side = 8});
  std::vector<uint8_t> scratch(images->shape().size());
  const auto jpeg = images->Pixels(0, 5, scratch.data());
  ASSERT_TRUE(jpeg.ok()) << jpeg.status();
  for (size_t i = 0; i < scratch.size(); i += 3) {
    ASSERT_NEAR((*jpeg)[i], 200, 3);
    ASSERT_NEAR((*jpeg)[i + 1], 100, 3);
    ASSERT_NEAR((*jpeg)[i + 2], 50, 3);
  }
  const auto png = images->Pixels(1, 6, scratch.data());
  ASSERT_TRUE(png.ok()) << png.status();
  for (size_t i = 0; i < scratch.size(); i += 3) ASSERT_EQ((*png)[i], 9);
}

TEST(ImageFolderTest, TestImagesHaveTheNumbersOfTheTrainingClasses) {
  const TestFolder folder;
  Fill(folder);
  std::filesystem::remove_all(folder.Path("cat"));
  const auto images =
      Open(folder.path(), {.side = 8, .class_names = {"cat", "dog", "emu"}});
  EXPECT_EQ(images->size(), 2u);
  EXPECT_EQ(images->num_classes(), 3u);
  EXPECT_EQ(images->label(0), 1u);
  const absl::Status status =
      ImageFolder::Open(folder.path(), {.side = 8, .class_names = {"cat"}})
          .status();
  EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument);
  EXPECT_NE(status.message().find("'dog'"), std::string::npos) << status;
}

TEST(ImageFolderTest, AClassWithoutImagesIsNamed) {
  const TestFolder folder;
  Fill(folder);
  std::filesystem::create_directory(folder.Path("emu"));
  folder.Write("emu/readme.txt", "no image");
  const absl::Status status =
      ImageFolder::Open(folder.path(), {.side = 8}).status();
  EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument);
  EXPECT_NE(status.message().find("'emu' without an image"), std::string::npos)
      << status;
  // Test images may lack classes of the training images.
  EXPECT_TRUE(
      ImageFolder::Open(folder.path(),
                        {.side = 8, .class_names = {"cat", "dog", "emu"}})
          .ok());
}

TEST(ImageFolderTest, AListNamesImagesAndTheirClasses) {
  const TestFolder folder, elsewhere;
  Fill(folder);
  const std::string whole =
      elsewhere.Write("x", PngFile(9, 9, 3, OneColour(9, 9, 1, 2, 3)));
  const std::string list = elsewhere.Write(
      "list.txt",
      absl::StrCat("dog/a.jpg 2\n\n  cat/2.png \t0\r\n", whole, " 2"));
  const auto opened = ImageFolder::OpenList(folder.path(), list, {.side = 8});
  ASSERT_TRUE(opened.ok()) << opened.status();
  const ImageFolder& images = **opened;
  ASSERT_EQ(images.size(), 3u);
  EXPECT_EQ(images.num_classes(), 3u);
  EXPECT_EQ(images.path(0), folder.Path("dog/a.jpg"));
  EXPECT_EQ(images.path(1), folder.Path("cat/2.png"));
  EXPECT_EQ(images.path(2), whole);
  EXPECT_EQ(images.label(0), 2u);
  EXPECT_EQ(images.label(1), 0u);
  EXPECT_EQ(images.label(2), 2u);
  std::vector<uint8_t> scratch(images.shape().size());
  const auto pixels = images.Pixels(2, std::nullopt, scratch.data());
  ASSERT_TRUE(pixels.ok()) << pixels.status();
  EXPECT_EQ(std::vector<uint8_t>(*pixels, *pixels + 3),
            (std::vector<uint8_t>{1, 2, 3}));
}

TEST(ImageFolderTest, AWrongListNamesItsLine) {
  const TestFolder folder;
  const auto error_of = [&](const std::string& text,
                            const ImageFolderOptions& options) {
    const std::string list = folder.Write("list.txt", text);
    const absl::Status status =
        ImageFolder::OpenList(folder.path(), list, options).status();
    EXPECT_FALSE(status.ok()) << text;
    EXPECT_EQ(status.message().find('\n'), std::string::npos) << status;
    return std::string(status.message());
  };
  const ImageFolderOptions all;
  const ImageFolderOptions two = {.class_names = {"0", "1"}};
  EXPECT_NE(error_of("a 0\nb\n", all).find("list.txt':2: the line is \"b\""),
            std::string::npos);
  EXPECT_NE(error_of("a 0\nb c\n", all).find("':2: "), std::string::npos);
  EXPECT_NE(error_of("a -1\n", all).find("0 to 1048575"), std::string::npos);
  EXPECT_NE(error_of("a 1048576\n", all).find("':1: "), std::string::npos);
  EXPECT_NE(error_of("7\n", all).find("':1: "), std::string::npos);
  EXPECT_NE(error_of("a 1\nb 2\n", two).find("0 to 1;"), std::string::npos);
  EXPECT_NE(error_of("\n\n", all).find("has no line"), std::string::npos);
  EXPECT_EQ(ImageFolder::OpenList(folder.path(), folder.Path("none"), all)
                .status()
                .code(),
            absl::StatusCode::kNotFound);
}

TEST(ImageFolderTest, AFileThatIsNoImageIsNamedWhenItIsRead) {
  const TestFolder folder;
  std::filesystem::create_directory(folder.Path("a"));
  const std::string path = folder.Write("a/1.jpg", "this is no image");
  const auto images = Open(folder.path(), {.side = 8});
  std::vector<uint8_t> scratch(images->shape().size());
  const absl::Status status =
      images->Pixels(0, std::nullopt, scratch.data()).status();
  EXPECT_EQ(status.code(), absl::StatusCode::kDataLoss);
  EXPECT_NE(status.message().find(path), std::string::npos) << status;
  std::filesystem::remove(path);
  EXPECT_EQ(images->Pixels(0, std::nullopt, scratch.data()).status().code(),
            absl::StatusCode::kNotFound);
}

TEST(ImageFolderTest, AFolderWithoutImagesSaysWhatItShouldLookLike) {
  const TestFolder folder;
  const auto expect_missing = [](const absl::Status& status) {
    EXPECT_EQ(status.code(), absl::StatusCode::kNotFound);
    EXPECT_NE(status.message().find("for each class"), std::string::npos)
        << status;
    EXPECT_EQ(status.message().find('\n'), std::string::npos) << status;
  };
  expect_missing(ImageFolder::Open(folder.Path("none"), {}).status());
  expect_missing(ImageFolder::Open(folder.path(), {}).status());
  std::filesystem::create_directory(folder.Path("cat"));
  expect_missing(ImageFolder::Open(folder.path(), {}).status());
  expect_missing(FolderOfSplit(folder.path(), ImageSplit::kTrain).status());
  expect_missing(FolderOfSplit(folder.path(), ImageSplit::kTest).status());
  for (const char* const name : {"test", "train", "val"}) {
    std::filesystem::create_directory(folder.Path(name));
    const auto test = FolderOfSplit(folder.path(), ImageSplit::kTest);
    ASSERT_TRUE(test.ok()) << test.status();
    EXPECT_EQ(*test, folder.Path(std::string(name) == "val" ? "val" : "test"));
  }
  EXPECT_EQ(*FolderOfSplit(folder.path(), ImageSplit::kTrain),
            folder.Path("train"));
}

TEST(ImageFolderTest, OptionsOutOfRangeAreRefused) {
  const TestFolder folder;
  Fill(folder);
  for (const ImageFolderOptions& options :
       {ImageFolderOptions{.side = 0}, ImageFolderOptions{.side = 5000},
        ImageFolderOptions{.middle_share = 0},
        ImageFolderOptions{.middle_share = 1.5}}) {
    EXPECT_EQ(ImageFolder::Open(folder.path(), options).status().code(),
              absl::StatusCode::kInvalidArgument);
  }
}

}  // namespace
}  // namespace oarlock::data
