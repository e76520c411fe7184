#include "examples/resnet/resnet.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdint>
#include <filesystem>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/str_cat.h"
#include "tests/data/images/image_bytes.h"
#include "tests/data/test_files.h"

namespace images {
namespace {

using oarlock::TestFolder;
using oarlock::data::PngFile;
using ::testing::AllOf;
using ::testing::HasSubstr;

absl::StatusOr<ResNetArgs> Parse(std::vector<std::string> words) {
  words.insert(words.begin(), "train");
  std::vector<char*> argv;
  for (std::string& word : words) argv.push_back(word.data());
  return ParseResNetArgs(static_cast<int>(argv.size()), argv.data());
}

std::string Config(const std::string& name) {
  return absl::StrCat("examples/resnet/configs/", name, ".textproto");
}

absl::StatusOr<ImageData> Open(std::vector<std::string> words) {
  const auto args = Parse(std::move(words));
  EXPECT_TRUE(args.ok()) << args.status();
  return OpenResNetImages(args->args.config, args->network);
}

// A small image of one colour.
void WriteImage(const TestFolder& folder, const std::string& name,
                uint8_t red) {
  std::filesystem::create_directories(
      std::filesystem::path(folder.Path(name)).parent_path());
  std::vector<uint8_t> pixels;
  for (int i = 0; i < 10 * 12; ++i) pixels.insert(pixels.end(), {red, 0, 0});
  folder.Write(name, PngFile(10, 12, 3, pixels));
}

uint8_t RedOf(const oarlock::data::ImageDataset& images, uint64_t example) {
  std::vector<uint8_t> scratch(images.shape().size());
  const auto pixels = images.Pixels(example, std::nullopt, scratch.data());
  EXPECT_TRUE(pixels.ok()) << pixels.status();
  return pixels.ok() ? **pixels : 0;
}

TEST(ResNetTest, EachConfigurationFileIsWholeAndFlagsOverrideIt) {
  const auto imagenet = Parse({"-c", Config("resnet50")});
  ASSERT_TRUE(imagenet.ok()) << imagenet.status();
  EXPECT_EQ(imagenet->network.depth(), 50);
  EXPECT_EQ(imagenet->args.config.epochs(), 90);
  EXPECT_EQ(imagenet->args.config.milestones_size(), 3);
  EXPECT_EQ(ResNetExperiment(imagenet->network).name, "resnet50");

  const auto overridden = Parse({"--depth=34", "--config", Config("resnet50"),
                                 "--milestones", "10,20", "--epochs", "25"});
  ASSERT_TRUE(overridden.ok()) << overridden.status();
  EXPECT_EQ(overridden->network.depth(), 34);
  EXPECT_TRUE(overridden->network.zero_last_scale());
  EXPECT_EQ(overridden->args.config.epochs(), 25);
  EXPECT_EQ(overridden->args.config.milestones_size(), 2);
  EXPECT_EQ(overridden->args.config.weight_decay(), 1e-4);

  const auto cifar = Parse({"-c", Config("resnet18_cifar")});
  ASSERT_TRUE(cifar.ok()) << cifar.status();
  EXPECT_EQ(cifar->network.image_size(), 32);
  const auto synthetic = Parse({"-c", Config("resnet18_synthetic")});
  ASSERT_TRUE(synthetic.ok()) << synthetic.status();
  EXPECT_TRUE(synthetic->args.config.synthetic());
}

TEST(ResNetTest, WrongFlagsAndFilesAreRefusedInOneLine) {
  const auto error_of = [](std::vector<std::string> words) {
    const absl::Status status = Parse(std::move(words)).status();
    EXPECT_FALSE(status.ok());
    EXPECT_EQ(status.message().find('\n'), std::string::npos) << status;
    return std::string(status.message());
  };
  EXPECT_THAT(error_of({"--depth", "20"}),
              HasSubstr("depth is 20; legal are 18, 34, 50, 101 and 152"));
  EXPECT_THAT(error_of({"--image_size", "0"}), HasSubstr("--image_size"));
  const TestFolder folder;
  const std::string file =
      folder.Write("my.textproto", "depth: 18\nimagesize: 32\nepochs: 2\n");
  EXPECT_THAT(error_of({"-c", file}),
              AllOf(HasSubstr("my.textproto:2: "),
                    HasSubstr("did you mean image_size?")));
  EXPECT_THAT(error_of({"-c", folder.Path("none")}),
              HasSubstr("cannot be read"));
}

TEST(ResNetTest, FoldersOfClassesAreFoundWithEitherNameOfTheTest) {
  for (const std::string test : {"val", "test"}) {
    const TestFolder folder;
    WriteImage(folder, "train/cat/a.png", 10);
    WriteImage(folder, "train/dog/b.png", 20);
    WriteImage(folder, "train/emu/c.png", 30);
    WriteImage(folder, test + "/dog/d.png", 40);
    const auto data = Open({"--data_dir", folder.path(), "--image_size", "8"});
    ASSERT_TRUE(data.ok()) << data.status();
    EXPECT_EQ(data->train->size(), 3u);
    EXPECT_EQ(data->train->num_classes(), 3u);
    EXPECT_EQ(data->train->shape(), (oarlock::data::ImageShape{8, 8, 3}));
    ASSERT_EQ(data->test->size(), 1u);
    EXPECT_EQ(data->test->label(0), 1u);
    EXPECT_EQ(RedOf(*data->test, 0), 40);
  }
}

// PaddleClas's ImageNet has lists beside folders, and no classes in val/.
TEST(ResNetTest, ListsCountMoreThanFolders) {
  const TestFolder folder;
  WriteImage(folder, "train/n01/a.png", 10);
  WriteImage(folder, "train/n02/b.png", 20);
  WriteImage(folder, "val/c.png", 30);
  folder.Write("train_list.txt", "train/n02/b.png 1\ntrain/n01/a.png 0\n");
  std::vector<std::string> words = {"--data_dir", folder.path(), "--image_size",
                                    "8"};
  EXPECT_THAT(std::string(Open(words).status().message()),
              HasSubstr("no val_list.txt or test_list.txt"));
  folder.Write("val_list.txt", "val/c.png 1\n");
  const auto data = Open(words);
  ASSERT_TRUE(data.ok()) << data.status();
  EXPECT_EQ(RedOf(*data->train, 0), 20);
  EXPECT_EQ(data->train->num_classes(), 2u);
  EXPECT_EQ(data->test->label(0), 1u);
  EXPECT_EQ(RedOf(*data->test, 0), 30);
  folder.Write("val_list.txt", "val/c.png 2\n");
  EXPECT_THAT(std::string(Open(words).status().message()),
              HasSubstr("val_list.txt':1: "));
}

TEST(ResNetTest, Cifar10IsReadAtItsOwnSize) {
  const TestFolder folder;
  std::string records;
  for (char label = 0; label < 4; ++label) {
    records += label + std::string(3072, static_cast<char>(50 + label));
  }
  for (int i = 1; i <= 5; ++i) {
    folder.Write(absl::StrCat("data_batch_", i, ".bin"), records);
  }
  folder.Write("test_batch.bin", records);
  const auto data =
      Open({"-c", Config("resnet18_cifar"), "--data_dir", folder.path()});
  ASSERT_TRUE(data.ok()) << data.status();
  EXPECT_EQ(data->train->size(), 20u);
  EXPECT_EQ(data->train->num_classes(), 10u);
  EXPECT_EQ(RedOf(*data->test, 3), 53);
  EXPECT_THAT(
      std::string(Open({"--data_dir", folder.path()}).status().message()),
      HasSubstr("give --image_size 32"));
}

TEST(ResNetTest, AFolderWithoutImagesSaysInOneLineWhatItMayHold) {
  const TestFolder folder;
  for (const std::string& path : {folder.path(), folder.Path("none")}) {
    const absl::Status status = Open({"--data_dir", path}).status();
    EXPECT_EQ(status.code(), absl::StatusCode::kNotFound);
    EXPECT_THAT(std::string(status.message()),
                AllOf(HasSubstr(path), HasSubstr("train/CLASS/"),
                      HasSubstr("train_list.txt"), HasSubstr("image-net.org"),
                      HasSubstr("--synthetic")));
    EXPECT_EQ(status.message().find('\n'), std::string::npos) << status;
  }
}

TEST(ResNetTest, SyntheticImagesHaveTheSizeAndNumbersOfTheFlags) {
  const auto data =
      Open({"--synthetic", "--image_size", "12", "--synthetic_images", "40",
            "--synthetic_classes", "3"});
  ASSERT_TRUE(data.ok()) << data.status();
  EXPECT_EQ(data->train->size(), 40u);
  EXPECT_EQ(data->test->size(), 10u);
  EXPECT_EQ(data->train->num_classes(), 3u);
  EXPECT_EQ(data->train->shape(), (oarlock::data::ImageShape{12, 12, 3}));
  v1::ResNetConfig config;
  config.set_image_size(12);
  const auto network = ResNetExperiment(config).network(*data);
  ASSERT_TRUE(network.ok()) << network.status();
}

TEST(ResNetTest, AugmentationIsThatOfTheSize) {
  v1::ResNetConfig config;
  EXPECT_TRUE(ResNetAugmentation(config).random_area);
  EXPECT_EQ(ResNetAugmentation(config).padding, 0u);
  config.set_image_size(64);
  EXPECT_FALSE(ResNetAugmentation(config).random_area);
  EXPECT_EQ(ResNetAugmentation(config).padding, 4u);
}

}  // namespace
}  // namespace images
