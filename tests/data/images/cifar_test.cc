#include "data/images/cifar.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <optional>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "base/random.h"
#include "tests/data/images/real_images.h"
#include "tests/data/reader/compressing.h"
#include "tests/data/test_files.h"

namespace oarlock::data {
namespace {

constexpr uint64_t kSeed = 17;
constexpr size_t kPixels = 3072;

std::string RandomRecord(RandomSequence& random, CifarKind kind, char label) {
  std::string record;
  if (kind == CifarKind::kCifar100) record += '\x13';
  record += label;
  for (size_t i = 0; i < kPixels; ++i) record += static_cast<char>(random());
  return record;
}

// Ten records with labels from `label`.
std::string RandomFile(RandomSequence& random, CifarKind kind, char label = 0) {
  std::string file;
  for (char i = 0; i < 10; ++i) {
    file += RandomRecord(random, kind, static_cast<char>((label + i) % 10));
  }
  return file;
}

absl::Status StatusOf(const std::string& bytes,
                      CifarKind kind = CifarKind::kCifar10) {
  BytesSource source(bytes);
  CifarImages images;
  return AppendCifar("the file", kind, &source, &images);
}

void ExpectBad(const absl::Status& status, const std::string& what) {
  EXPECT_EQ(status.code(), absl::StatusCode::kDataLoss) << what;
  for (const std::string& part :
       {std::string("the file"), what, std::string("legal is")}) {
    EXPECT_NE(status.message().find(part), std::string::npos) << status;
  }
  EXPECT_EQ(status.message().find('\n'), std::string::npos) << status;
}

TEST(CifarTest, PlanesBecomePixelsOfThreeColours) {
  RandomSequence random(kSeed);
  for (const CifarKind kind : {CifarKind::kCifar10, CifarKind::kCifar100}) {
    for (const int count : {1, 255, 256, 300}) {
      std::string bytes;
      for (int i = 0; i < count; ++i) {
        bytes += RandomRecord(random, kind, static_cast<char>(i % 10));
      }
      BytesSource source(bytes, /*piece=*/1000);
      CifarImages images;
      const absl::Status status =
          AppendCifar("the file", kind, &source, &images);
      ASSERT_TRUE(status.ok()) << status;
      ASSERT_EQ(images.labels.size(), static_cast<size_t>(count));
      const size_t record_bytes = CifarRecordBytes(kind);
      for (int i = 0; i < count; ++i) {
        ASSERT_EQ(images.labels[i], static_cast<uint32_t>(i % 10));
        const std::string planes =
            bytes.substr(i * record_bytes + record_bytes - kPixels, kPixels);
        for (size_t y = 0; y < 32; ++y) {
          for (size_t x = 0; x < 32; ++x) {
            for (size_t c = 0; c < 3; ++c) {
              ASSERT_EQ(images.pixels[i * kPixels + (y * 32 + x) * 3 + c],
                        static_cast<uint8_t>(planes[c * 1024 + y * 32 + x]));
            }
          }
        }
      }
    }
  }
}

TEST(CifarTest, WhatIsWrongWithAFileIsSaidInOneLine) {
  RandomSequence random(kSeed);
  const std::string good = RandomFile(random, CifarKind::kCifar10);
  ASSERT_TRUE(StatusOf(good).ok());
  ExpectBad(StatusOf(""), "it has 0 bytes");
  ExpectBad(StatusOf(good.substr(0, 3072)), "it has 3072 bytes");
  ExpectBad(StatusOf(good + "x"), "it has 30731 bytes");
  std::string wrong_label = good;
  wrong_label[3 * 3073] = 10;
  ExpectBad(StatusOf(wrong_label), "record 3 has label 10");
  // A file of the other kind.
  ExpectBad(StatusOf(good, CifarKind::kCifar100), "CIFAR-100");
}

TEST(CifarTest, OfficialNamesAreReadInTheirOrder) {
  for (const std::string inside : {"", "cifar-10-batches-bin/"}) {
    const TestFolder folder;
    RandomSequence random(kSeed);
    if (!inside.empty()) {
      std::filesystem::create_directory(folder.Path(inside));
    }
    for (int i = 5; i >= 1; --i) {
      const std::string file =
          RandomFile(random, CifarKind::kCifar10, static_cast<char>(i));
      folder.Write(absl::StrCat(inside, "data_batch_", i,
                                i % 2 == 0 ? ".bin.gz" : ".bin"),
                   i % 2 == 0 ? Gzip(file) : file);
    }
    folder.Write(inside + "test_batch.bin.xz",
                 Xz(RandomFile(random, CifarKind::kCifar10, 7)));
    // Not one of the official files, which come first.
    folder.Write(inside + "train_more.bin", "x");
    const auto train = LoadCifar(folder.path(), ImageSplit::kTrain);
    ASSERT_TRUE(train.ok()) << train.status();
    EXPECT_EQ((*train)->size(), 50u);
    EXPECT_EQ((*train)->shape(), (ImageShape{32, 32, 3}));
    EXPECT_EQ((*train)->num_classes(), 10u);
    for (uint32_t i = 0; i < 5; ++i) {
      EXPECT_EQ((*train)->label(10 * i), i + 1) << "file " << i;
    }
    const auto test = LoadCifar(folder.path(), ImageSplit::kTest);
    ASSERT_TRUE(test.ok()) << test.status();
    EXPECT_EQ((*test)->size(), 10u);
    EXPECT_EQ((*test)->label(0), 7u);
  }
}

TEST(CifarTest, OtherNamesOfTrainAndTestAreReadInNaturalOrder) {
  const TestFolder folder;
  RandomSequence random(kSeed);
  folder.Write("train_10.bin", RandomFile(random, CifarKind::kCifar10, 3));
  folder.Write("train_9.bin.xz",
               Xz(RandomFile(random, CifarKind::kCifar10, 2)));
  // The same file in two forms counts once.
  folder.Write("train_9.bin", RandomFile(random, CifarKind::kCifar10, 1));
  folder.Write("test.bin.gz", Gzip(RandomFile(random, CifarKind::kCifar10, 5)));
  folder.Write("train_notes.txt", "no images");
  folder.Write("train_11.bin.zst",
               Zstd(RandomFile(random, CifarKind::kCifar10, 4)));
  const auto train = LoadCifar(folder.path(), ImageSplit::kTrain);
  ASSERT_TRUE(train.ok()) << train.status();
  ASSERT_EQ((*train)->size(), 30u);
  EXPECT_EQ((*train)->label(0), 1u);
  EXPECT_EQ((*train)->label(10), 3u);
  EXPECT_EQ((*train)->label(20), 4u);
  const auto test = LoadCifar(folder.path(), ImageSplit::kTest);
  ASSERT_TRUE(test.ok()) << test.status();
  EXPECT_EQ((*test)->label(0), 5u);
}

TEST(CifarTest, FineLabelsOfCifar100AreTheLabels) {
  const TestFolder folder;
  RandomSequence random(kSeed);
  folder.Write("train.bin", RandomRecord(random, CifarKind::kCifar100, 99));
  const auto train =
      LoadCifar(folder.path(), ImageSplit::kTrain, CifarKind::kCifar100);
  ASSERT_TRUE(train.ok()) << train.status();
  EXPECT_EQ((*train)->num_classes(), 100u);
  EXPECT_EQ((*train)->label(0), 99u);
}

// Five files of uneven lengths, some compressed.
TEST(CifarTest, SharesOfAllRanksAreAllImagesInTheirOrder) {
  const TestFolder folder;
  RandomSequence random(kSeed);
  for (int i = 0; i < 5; ++i) {
    std::string file;
    for (uint64_t n = 1 + random.Below(9); n > 0; --n) {
      file += RandomRecord(random, CifarKind::kCifar10,
                           static_cast<char>(random.Below(10)));
    }
    const std::string name = absl::StrCat("train_", i, ".bin");
    if (i % 3 == 0) folder.Write(name, file);
    if (i % 3 == 1) folder.Write(name + ".gz", Gzip(file));
    if (i % 3 == 2) folder.Write(name + ".xz", Xz(file));
  }
  const auto all = LoadCifar(folder.path(), ImageSplit::kTrain);
  ASSERT_TRUE(all.ok()) << all.status();
  for (uint32_t size = 1; size <= 7; ++size) {
    for (const UnevenRule rule : {UnevenRule::kDrop, UnevenRule::kPad}) {
      uint64_t position = 0, num_counted = 0;
      for (uint32_t rank = 0; rank < size; ++rank) {
        const auto share =
            LoadCifarShare(folder.path(), ImageSplit::kTrain,
                           CifarKind::kCifar10, rank, size, rule);
        ASSERT_TRUE(share.ok()) << share.status();
        const MemoryImages& images = *share->images;
        for (uint64_t i = 0; i < images.size(); ++i, ++position) {
          const uint64_t expected = position % (*all)->size();
          ASSERT_EQ(images.label(i), (*all)->label(expected));
          const uint8_t* a = *images.Pixels(i, std::nullopt, nullptr);
          const uint8_t* b = *(*all)->Pixels(expected, std::nullopt, nullptr);
          ASSERT_TRUE(std::equal(a, a + kPixels, b)) << "seed " << kSeed;
          ASSERT_EQ(i < share->num_counted, position < (*all)->size());
        }
        num_counted += share->num_counted;
      }
      EXPECT_EQ(position % size, 0u);
      EXPECT_EQ(num_counted, std::min(position, (*all)->size()));
      EXPECT_LT(rule == UnevenRule::kPad ? position - (*all)->size()
                                         : (*all)->size() - position,
                size);
    }
  }
}

TEST(CifarTest, AShareOfADamagedFileIsRefused) {
  const TestFolder folder;
  RandomSequence random(kSeed);
  const std::string file = RandomFile(random, CifarKind::kCifar10);
  for (const bool compressed : {false, true}) {
    const std::string cut = file.substr(0, file.size() - 1);
    const std::string path = folder.Write(
        compressed ? "test.bin.gz" : "train.bin", compressed ? Gzip(cut) : cut);
    const absl::Status status =
        LoadCifarShare(folder.path(),
                       compressed ? ImageSplit::kTest : ImageSplit::kTrain,
                       CifarKind::kCifar10, 0, 2, UnevenRule::kPad)
            .status();
    EXPECT_EQ(status.code(), absl::StatusCode::kDataLoss) << status;
    EXPECT_NE(status.message().find(path), std::string::npos) << status;
    CifarImages images;
    const absl::Status part =
        AppendCifarPart(path, CifarKind::kCifar10, 8, 10, &images);
    EXPECT_EQ(part.code(), absl::StatusCode::kDataLoss) << part;
    EXPECT_EQ(images.labels.size(), 1u);
  }
}

TEST(CifarTest, WhatIsMissingIsNamedWithThePlaceToGetIt) {
  const TestFolder folder;
  RandomSequence random(kSeed);
  const auto expect_missing = [](const absl::Status& status,
                                 const std::string& what) {
    EXPECT_EQ(status.code(), absl::StatusCode::kNotFound);
    EXPECT_NE(status.message().find(what), std::string::npos) << status;
    EXPECT_NE(status.message().find("www.cs.toronto.edu/~kriz/cifar.html"),
              std::string::npos)
        << status;
    EXPECT_EQ(status.message().find('\n'), std::string::npos) << status;
  };
  for (const std::string& path : {folder.path(), folder.Path("none")}) {
    expect_missing(LoadCifar(path, ImageSplit::kTrain).status(), path);
    expect_missing(LoadCifar(path, ImageSplit::kTest).status(), path);
  }
  for (const int i : {1, 2, 4, 5}) {
    folder.Write(absl::StrCat("data_batch_", i, ".bin"),
                 RandomFile(random, CifarKind::kCifar10));
  }
  expect_missing(LoadCifar(folder.path(), ImageSplit::kTrain).status(),
                 "data_batch_3.bin");
}

TEST(CifarTest, ADamagedFileIsNamed) {
  const TestFolder folder;
  RandomSequence random(kSeed);
  const std::string path = folder.Write(
      "train.bin.xz",
      Xz(RandomFile(random, CifarKind::kCifar10)).substr(0, 20'000));
  const absl::Status status =
      LoadCifar(folder.path(), ImageSplit::kTrain).status();
  EXPECT_EQ(status.code(), absl::StatusCode::kDataLoss) << status;
  EXPECT_NE(status.message().find(path), std::string::npos) << status;
}

TEST(CifarTest, RealImagesAreReadWhole) {
  const std::string folder = RealImages("cifar10");
  if (folder.empty()) {
    GTEST_SKIP() << "no real images: OARLOCK_DATA_DIR/cifar10 is not there";
  }
  const auto train = LoadCifar(folder, ImageSplit::kTrain);
  ASSERT_TRUE(train.ok()) << train.status();
  EXPECT_EQ((*train)->size(), 10'000u);
  const auto test = LoadCifar(folder, ImageSplit::kTest);
  ASSERT_TRUE(test.ok()) << test.status();
  EXPECT_EQ((*test)->size(), 2'000u);
  // A plane taken for another would show in the colours' means: these are known
  // of the whole data set.
  const uint8_t* pixels = *(*train)->Pixels(0, std::nullopt, nullptr);
  constexpr double kMeans[] = {0.4914, 0.4822, 0.4465};
  for (size_t c = 0; c < 3; ++c) {
    double sum = 0;
    for (size_t i = c; i < 10'000 * kPixels; i += 3) sum += pixels[i] / 255.0;
    EXPECT_NEAR(sum / (10'000 * 1024), kMeans[c], 0.01) << "colour " << c;
  }
}

}  // namespace
}  // namespace oarlock::data
