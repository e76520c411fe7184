#include "data/images/idx.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <optional>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "base/random.h"
#include "tests/data/images/image_bytes.h"
#include "tests/data/images/real_images.h"
#include "tests/data/reader/compressing.h"
#include "tests/data/test_files.h"

namespace oarlock::data {
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
    const TestFolder plain, gzip, mixed, zstd;
    plain.Write(image_name, images);
    plain.Write(label_name, numbers);
    gzip.Write(image_name + ".gz", Gzip(images));
    gzip.Write(label_name + ".gz", Gzip(numbers));
    mixed.Write(image_name + ".xz", Xz(images));
    mixed.Write(label_name, numbers);
    zstd.Write(image_name + ".zst", Zstd(images));
    zstd.Write(label_name + ".zst", Zstd(numbers));
    const ImageSplit split =
        prefix == "train" ? ImageSplit::kTrain : ImageSplit::kTest;
    for (const TestFolder* const folder : {&plain, &gzip, &mixed, &zstd}) {
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
    for (const std::string part : {"train-images-idx3-ubyte[.gz|.xz|.zst]",
                                   "yann.lecun.com/exdb/mnist"}) {
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

// Files of one to nine images each, plain and compressed.
void WriteParts(const TestFolder& folder, int num_files) {
  RandomSequence random(kSeed);
  for (int i = 0; i < num_files; ++i) {
    const auto count = static_cast<uint32_t>(1 + random.Below(9));
    std::string pixels(count * 6, '\0'), labels(count, '\0');
    for (char& c : pixels) c = static_cast<char>(random());
    for (char& c : labels) c = static_cast<char>(random.Below(10));
    const std::string prefix = absl::StrCat("train-", i);
    const std::string images = IdxImageFile(count, 2, 3, pixels);
    folder.Write(prefix + "-images-idx3-ubyte" + (i % 2 == 0 ? "" : ".gz"),
                 i % 2 == 0 ? images : Gzip(images));
    const std::string numbers = IdxLabelFile(labels);
    folder.Write(prefix + "-labels-idx1-ubyte" + (i % 3 == 0 ? ".xz" : ""),
                 i % 3 == 0 ? Xz(numbers) : numbers);
  }
}

TEST(IdxTest, SharesOfAllRanksAreAllImagesInTheirOrder) {
  for (const int num_files : {1, 11}) {
    const TestFolder folder;
    WriteParts(folder, num_files);
    const auto all = LoadIdx(folder.path(), ImageSplit::kTrain);
    ASSERT_TRUE(all.ok()) << all.status();
    for (uint32_t size = 1; size <= std::min<uint64_t>(7, (*all)->size());
         ++size) {
      for (const UnevenRule rule : {UnevenRule::kDrop, UnevenRule::kPad}) {
        uint64_t position = 0;
        for (uint32_t rank = 0; rank < size; ++rank) {
          SCOPED_TRACE(testing::Message()
                       << num_files << " files, rank " << rank << " of " << size
                       << ", seed " << kSeed);
          const auto share =
              LoadIdxShare(folder.path(), ImageSplit::kTrain, rank, size, rule);
          ASSERT_TRUE(share.ok()) << share.status();
          EXPECT_EQ((*share)->shape(), (ImageShape{2, 3, 1}));
          for (uint64_t i = 0; i < (*share)->size(); ++i, ++position) {
            const uint64_t expected = position % (*all)->size();
            ASSERT_EQ((*share)->label(i), (*all)->label(expected));
            const uint8_t* a = *(*share)->Pixels(i, std::nullopt, nullptr);
            const uint8_t* b = *(*all)->Pixels(expected, std::nullopt, nullptr);
            ASSERT_TRUE(std::equal(a, a + 6, b));
          }
        }
        EXPECT_EQ(position % size, 0u);
        EXPECT_LT(rule == UnevenRule::kPad ? position - (*all)->size()
                                           : (*all)->size() - position,
                  size);
      }
    }
  }
}

TEST(IdxTest, FilesAreInTheOrderOfTheirNumbers) {
  const TestFolder folder;
  WriteParts(folder, 11);
  const auto files = FindIdxFiles(folder.path(), ImageSplit::kTrain);
  ASSERT_TRUE(files.ok()) << files.status();
  ASSERT_EQ(files->size(), 11u);
  for (int i = 0; i < 11; ++i) {
    const std::string prefix = absl::StrCat("/train-", i, "-");
    EXPECT_NE((*files)[i].images.find(prefix), std::string::npos);
    EXPECT_NE((*files)[i].labels.find(prefix), std::string::npos);
  }
}

TEST(IdxTest, AShareOfADamagedFileIsRefused) {
  const TestFolder folder;
  const std::string images = IdxImageFile(4, 1, 1, "abcd");
  const std::string labels = IdxLabelFile(std::string(4, '\1'));
  const auto expect_bad = [&](const std::string& image_file,
                              const std::string& label_file,
                              const std::string& what) {
    folder.Write("train-images-idx3-ubyte", image_file);
    folder.Write("train-labels-idx1-ubyte", label_file);
    const absl::Status status =
        LoadIdxShare(folder.path(), ImageSplit::kTrain, 1, 2, UnevenRule::kDrop)
            .status();
    EXPECT_EQ(status.code(), absl::StatusCode::kDataLoss) << status;
    EXPECT_NE(status.message().find(what), std::string::npos) << status;
    EXPECT_EQ(status.message().find('\n'), std::string::npos) << status;
  };
  expect_bad(images.substr(0, 19), labels, "ends before byte 20");
  expect_bad(images, labels.substr(0, 11), "ends before byte 12");
  expect_bad(images, IdxLabelFile("abc"), "it has 3 labels; legal is 4");
  expect_bad(images, IdxLabelFile(std::string(4, '\xa')), "label 2 is 10");
  folder.Write("train-2-images-idx3-ubyte",
               IdxImageFile(4, 2, 2, std::string(16, 'a')));
  folder.Write("train-2-labels-idx1-ubyte", labels);
  folder.Write("train-images-idx3-ubyte", images);
  folder.Write("train-labels-idx1-ubyte", labels);
  const absl::Status whole =
      LoadIdx(folder.path(), ImageSplit::kTrain).status();
  EXPECT_EQ(whole.code(), absl::StatusCode::kDataLoss);
  EXPECT_NE(whole.message().find("as in the files before it"),
            std::string::npos)
      << whole;
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
}  // namespace oarlock::data
