#include "worker/data/images/idx.h"

#include <gtest/gtest.h>

#include <cmath>
#include <string>
#include <vector>

#include "base/random.h"
#include "tests/worker/data/compressing.h"
#include "tests/worker/data/images/image_bytes.h"
#include "tests/worker/data/images/real_images.h"
#include "tests/worker/data/test_files.h"

namespace oarlock {
namespace {

constexpr uint64_t kSeed = 3;

std::string RandomBytes(size_t size) {
  RandomSequence random(kSeed);
  std::string bytes(size, '\0');
  for (char& c : bytes) c = static_cast<char>(random());
  return bytes;
}

absl::Status ImagesStatus(const std::string& bytes) {
  BytesSource source(bytes);
  return ReadIdxImages("the file", &source).status();
}
absl::Status LabelsStatus(const std::string& bytes) {
  BytesSource source(bytes);
  return ReadIdxLabels("the file", &source).status();
}

void ExpectBad(const absl::Status& status, const std::string& what) {
  EXPECT_EQ(status.code(), absl::StatusCode::kDataLoss) << what;
  for (const std::string& part :
       {std::string("the file"), what, std::string("legal is")}) {
    EXPECT_NE(status.message().find(part), std::string::npos) << status;
  }
  EXPECT_EQ(status.message().find('\n'), std::string::npos) << status;
}

TEST(IdxTest, ImagesComeAsTheyLieInTheFile) {
  const std::string pixels = RandomBytes(5 * 4 * 3);
  BytesSource source(IdxImageFile(5, 4, 3, pixels), /*piece=*/7);
  const auto images = ReadIdxImages("the file", &source);
  ASSERT_TRUE(images.ok()) << images.status();
  EXPECT_EQ(images->count, 5u);
  EXPECT_EQ(images->height, 4u);
  EXPECT_EQ(images->width, 3u);
  EXPECT_EQ(std::string(images->pixels.begin(), images->pixels.end()), pixels);
}

TEST(IdxTest, WhatIsWrongWithAFileIsSaidInOneLine) {
  const std::string good = IdxImageFile(2, 2, 2, "abcdefgh");
  ASSERT_TRUE(ImagesStatus(good).ok());
  ExpectBad(ImagesStatus(""), "ends after 0 bytes");
  ExpectBad(ImagesStatus(good.substr(0, 3)), "ends after 3 bytes");
  ExpectBad(ImagesStatus(good.substr(0, 15)), "ends after 11 bytes");
  ExpectBad(ImagesStatus(good.substr(0, 20)), "it has 4 bytes of items");
  ExpectBad(ImagesStatus(good + "i"), "goes on after its items");
  ExpectBad(ImagesStatus(IdxLabelFile("ab")), "begins with 00000801");
  ExpectBad(ImagesStatus("GIF89a.."), "begins with 47494638");
  ExpectBad(ImagesStatus(IdxImageFile(0, 2, 2, "")), "0 images of 2 x 2");
  ExpectBad(ImagesStatus(IdxImageFile(1, 0, 2, "")), "1 images of 0 x 2");
  ExpectBad(ImagesStatus(IdxImageFile(1, 2, 5000, "")), "2 x 5000");
  // A header that claims more than there is memory for.
  ExpectBad(ImagesStatus(IdxImageFile(~0u, 4096, 4096, "a")), "4096 x 4096");
  ExpectBad(ImagesStatus(IdxImageFile(~0u, ~0u, ~0u, "a")), "4294967295");
  ExpectBad(ImagesStatus(IdxImageFile(1000, 4096, 4096, "a")),
            "it has 1 bytes of items");
  ExpectBad(LabelsStatus(good), "begins with 00000803");
  ExpectBad(LabelsStatus(IdxLabelFile("")), "0 labels");
  ExpectBad(LabelsStatus(IdxLabelFile("abc").substr(0, 9)), "it has 1 bytes");
  ExpectBad(LabelsStatus(IdxLabelFile("abc") + "d"), "goes on");
}

TEST(IdxTest, AFolderIsReadPlainAndCompressed) {
  const std::string pixels = RandomBytes(6 * 3 * 2);
  const std::string labels("\0\1\2\3\4\5", 6);
  const std::string images = IdxImageFile(6, 3, 2, pixels);
  const std::string numbers = IdxLabelFile(labels);
  for (const std::string prefix : {"train", "t10k"}) {
    const std::string image_name = prefix + "-images-idx3-ubyte";
    const std::string label_name = prefix + "-labels-idx1-ubyte";
    const TestFolder plain, gzip, mixed;
    plain.Write(image_name, images);
    plain.Write(label_name, numbers);
    gzip.Write(image_name + ".gz", Gzip(images));
    gzip.Write(label_name + ".gz", Gzip(numbers));
    mixed.Write(image_name + ".xz", Xz(images));
    mixed.Write(label_name, numbers);
    const ImageSplit split =
        prefix == "train" ? ImageSplit::kTrain : ImageSplit::kTest;
    for (const TestFolder* const folder : {&plain, &gzip, &mixed}) {
      const auto dataset = LoadIdx(folder->path(), split);
      ASSERT_TRUE(dataset.ok()) << dataset.status();
      EXPECT_EQ((*dataset)->size(), 6u);
      EXPECT_EQ((*dataset)->shape(), (ImageShape{3, 2, 1}));
      EXPECT_EQ((*dataset)->num_classes(), 10u);
      for (uint64_t i = 0; i < 6; ++i) {
        EXPECT_EQ((*dataset)->label(i), i);
        const uint8_t* image = *(*dataset)->Pixels(i, std::nullopt, nullptr);
        EXPECT_EQ(std::string(image, image + 6), pixels.substr(6 * i, 6));
      }
      const ImageSplit other =
          split == ImageSplit::kTrain ? ImageSplit::kTest : ImageSplit::kTrain;
      EXPECT_EQ(LoadIdx(folder->path(), other).status().code(),
                absl::StatusCode::kNotFound);
    }
  }
}

TEST(IdxTest, AMissingFolderOrFileSaysWhereToGetIt) {
  const TestFolder folder;
  folder.Write("train-labels-idx1-ubyte", IdxLabelFile("a"));
  for (const std::string& path : {folder.path(), folder.Path("none")}) {
    const absl::Status status = LoadIdx(path, ImageSplit::kTrain).status();
    EXPECT_EQ(status.code(), absl::StatusCode::kNotFound);
    for (const std::string part :
         {"train-images-idx3-ubyte[.gz|.xz]", "yann.lecun.com/exdb/mnist"}) {
      EXPECT_NE(status.message().find(part), std::string::npos) << status;
    }
    EXPECT_NE(status.message().find(path), std::string::npos) << status;
    EXPECT_EQ(status.message().find('\n'), std::string::npos) << status;
  }
}

TEST(IdxTest, LabelsThatDoNotFitTheImagesAreDataLoss) {
  const TestFolder folder;
  folder.Write("train-images-idx3-ubyte", IdxImageFile(2, 1, 1, "ab"));
  const auto status = [&](const std::string& labels) {
    folder.Write("train-labels-idx1-ubyte", IdxLabelFile(labels));
    return LoadIdx(folder.path(), ImageSplit::kTrain).status();
  };
  EXPECT_TRUE(status(std::string("\0\x9", 2)).ok());
  const absl::Status too_many = status(std::string(3, '\0'));
  EXPECT_EQ(too_many.code(), absl::StatusCode::kDataLoss);
  EXPECT_NE(too_many.message().find("it has 3 labels; legal is 2"),
            std::string::npos)
      << too_many;
  const absl::Status too_large = status(std::string("\0\xa", 2));
  EXPECT_EQ(too_large.code(), absl::StatusCode::kDataLoss);
  EXPECT_NE(too_large.message().find("label 1 is 10; legal is 0 to 9"),
            std::string::npos)
      << too_large;
}

TEST(IdxTest, RealMnistIsReadWhole) {
  const std::string folder = RealImages("mnist");
  if (folder.empty()) {
    GTEST_SKIP() << "no real images: OARLOCK_DATA_DIR/mnist is not there";
  }
  const auto train = LoadIdx(folder, ImageSplit::kTrain);
  ASSERT_TRUE(train.ok()) << train.status();
  EXPECT_EQ((*train)->size(), 60'000u);
  EXPECT_EQ((*train)->shape(), (ImageShape{28, 28, 1}));
  const auto test = LoadIdx(folder, ImageSplit::kTest);
  ASSERT_TRUE(test.ok()) << test.status();
  EXPECT_EQ((*test)->size(), 10'000u);
  // Known of the test images: how often each digit comes.
  std::vector<int> counts(10);
  for (uint64_t i = 0; i < 10'000; ++i) ++counts[(*test)->label(i)];
  EXPECT_EQ(counts, (std::vector<int>{980, 1135, 1032, 1010, 982, 892, 958,
                                      1028, 974, 1009}));
  // And of the training images: mean and deviation of the bytes.
  double sum = 0, squares = 0;
  const uint8_t* pixels = *(*train)->Pixels(0, std::nullopt, nullptr);
  constexpr size_t kBytes = 60'000 * 784;
  for (size_t i = 0; i < kBytes; ++i) {
    sum += pixels[i] / 255.0;
    squares += pixels[i] / 255.0 * (pixels[i] / 255.0);
  }
  const double mean = sum / kBytes;
  EXPECT_NEAR(mean, 0.1307, 1e-4);
  EXPECT_NEAR(std::sqrt(squares / kBytes - mean * mean), 0.3081, 1e-4);
}

}  // namespace
}  // namespace oarlock
