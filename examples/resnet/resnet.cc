#include "examples/resnet/resnet.h"

#include <filesystem>
#include <memory>
#include <optional>
#include <string>
#include <system_error>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "base/status_macros.h"
#include "data/images/cifar.h"
#include "data/images/image_files.h"
#include "data/images/image_folder.h"
#include "examples/images/image_sources.h"
#include "models/image_networks.h"

namespace images {
namespace {

using oarlock::data::ImageFolder;
using oarlock::data::ImageFolderOptions;
using oarlock::data::ImageSplit;

bool IsSmall(const v1::ResNetConfig& network) {
  return static_cast<size_t>(network.image_size()) <=
         oarlock::models::kMaxSmallResNetImage;
}

ImageFolderOptions FolderOptionsOf(const v1::ResNetConfig& network) {
  ImageFolderOptions options;
  options.side = network.image_size();
  // Small files are about as large as what the network sees of them.
  if (IsSmall(network)) options.middle_share = 1;
  return options;
}

absl::StatusOr<std::unique_ptr<oarlock::nn::Network>> NewNetwork(
    const v1::ResNetConfig& network, uint32_t num_classes) {
  oarlock::models::ResNetOptions options;
  options.depth = network.depth();
  options.height = network.image_size();
  options.width = network.image_size();
  options.num_classes = num_classes;
  options.zero_last_scale = network.zero_last_scale();
  return oarlock::models::NewResNet(options);
}

absl::StatusOr<ImageData> OpenSynthetic(const v1::ImageConfig& config,
                                        const v1::ResNetConfig& network) {
  const auto side = static_cast<uint32_t>(network.image_size());
  oarlock::data::SyntheticImagesOptions options;
  options.shape = {.height = side, .width = side, .channels = 3};
  options.num_classes = network.synthetic_classes();
  options.num_examples = network.synthetic_images();
  options.seed = config.seed();
  return DrawImages(options);
}

// The first of `names` that is a file in `folder`.
std::optional<std::string> FindFile(const std::string& folder,
                                    const std::vector<std::string>& names) {
  for (const std::string& name : names) {
    std::string path = absl::StrCat(folder, "/", name);
    std::error_code ignored;
    if (std::filesystem::is_regular_file(path, ignored)) return path;
  }
  return std::nullopt;
}

absl::StatusOr<ImageData> OpenLists(const std::string& folder,
                                    const std::string& train_list,
                                    ImageFolderOptions options) {
  const std::optional<std::string> test_list =
      FindFile(folder, {"val_list.txt", "test_list.txt"});
  if (!test_list.has_value()) {
    return absl::NotFoundError(absl::StrCat(
        "no val_list.txt or test_list.txt beside '", train_list,
        "'; legal is a list of the test images as well; write one"));
  }
  OARLOCK_ASSIGN_OR_RETURN(std::unique_ptr<ImageFolder> train,
                           ImageFolder::OpenList(folder, train_list, options));
  options.class_names = train->class_names();
  OARLOCK_ASSIGN_OR_RETURN(std::unique_ptr<ImageFolder> test,
                           ImageFolder::OpenList(folder, *test_list, options));
  return ImageData{
      .train = std::move(train), .test = std::move(test), .is_file_list = true};
}

absl::StatusOr<ImageData> OpenFolders(const std::string& folder,
                                      ImageFolderOptions options) {
  OARLOCK_ASSIGN_OR_RETURN(
      const std::string train_folder,
      oarlock::data::FolderOfSplit(folder, ImageSplit::kTrain));
  OARLOCK_ASSIGN_OR_RETURN(
      const std::string test_folder,
      oarlock::data::FolderOfSplit(folder, ImageSplit::kTest));
  OARLOCK_ASSIGN_OR_RETURN(std::unique_ptr<ImageFolder> train,
                           ImageFolder::Open(train_folder, options));
  options.class_names = train->class_names();
  OARLOCK_ASSIGN_OR_RETURN(std::unique_ptr<ImageFolder> test,
                           ImageFolder::Open(test_folder, options));
  return ImageData{
      .train = std::move(train), .test = std::move(test), .is_file_list = true};
}

// With a share only that of the training images.
absl::StatusOr<ImageData> OpenCifar(const std::string& folder,
                                    const v1::ResNetConfig& network,
                                    const std::optional<TrainShare>& share) {
  if (network.image_size() !=
      static_cast<int>(oarlock::data::kCifarShape.width)) {
    return absl::InvalidArgumentError(absl::StrCat(
        "--image_size is ", network.image_size(), " and '", folder,
        "' holds CIFAR-10; legal is its ", oarlock::data::kCifarShape.width,
        "; give --image_size ", oarlock::data::kCifarShape.width));
  }
  return LoadCifar10(folder, share);
}

}  // namespace

oarlock::flags::CommandSyntax ResNetSyntax() {
  return {
      .name = "train",
      .description =
          "Trains a ResNet on a folder of images. Recipes are in "
          "examples/resnet/configs; flags override them.",
      .examples =
          "  train -c examples/resnet/configs/resnet50.textproto --data_dir "
          "imagenet\n"
          "  train -c examples/resnet/configs/resnet18_synthetic.textproto\n"
          "  oarlock launch --nproc_per_node 2 train -c "
          "examples/resnet/configs/resnet18_cifar.textproto\n",
      .takes_config = true,
  };
}

absl::StatusOr<ResNetArgs> ParseResNetArgs(int argc, char** argv) {
  v1::ImageConfig defaults;
  defaults.set_data_dir("imagenet");
  ResNetArgs result;
  OARLOCK_ASSIGN_OR_RETURN(result.args, ParseArgs(ResNetSyntax(), defaults,
                                                  argc, argv, &result.network));
  // Before other workers are waited for.
  constexpr uint32_t kAnyClasses = 2;
  OARLOCK_RETURN_IF_ERROR(NewNetwork(result.network, kAnyClasses).status());
  return result;
}

absl::StatusOr<ImageData> OpenResNetImages(
    const v1::ImageConfig& config, const v1::ResNetConfig& network,
    const std::optional<TrainShare>& share) {
  if (config.synthetic()) return OpenSynthetic(config, network);
  const std::string& folder = config.data_dir();
  const ImageFolderOptions options = FolderOptionsOf(network);
  const std::optional<std::string> list = FindFile(folder, {"train_list.txt"});
  const bool is_folder =
      oarlock::data::IsImageFolder(absl::StrCat(folder, "/train"));
  if (share.has_value() && (list.has_value() || is_folder)) {
    return RefuseFileList(folder);
  }
  if (list.has_value()) return OpenLists(folder, *list, options);
  if (is_folder) return OpenFolders(folder, options);
  if (oarlock::data::FindCifarFiles(folder, ImageSplit::kTrain,
                                    oarlock::data::CifarKind::kCifar10)
          .ok()) {
    return OpenCifar(folder, network, share);
  }
  return absl::NotFoundError(absl::StrCat(
      "no images in '", folder, "'",
      oarlock::data::IsImageFolder(folder) ? "" : ", which is no folder",
      "; legal are train/CLASS/*.jpg or .png and val/ or test/ likewise, or "
      "train_list.txt and val_list.txt of lines \"PATH LABEL\", or CIFAR-10's "
      "data_batch_N.bin; get ImageNet from image-net.org, CIFAR-10 from "
      "www.cs.toronto.edu/~kriz/cifar.html, and give --data_dir, or try "
      "--synthetic"));
}

oarlock::data::Augmentation ResNetAugmentation(
    const v1::ResNetConfig& network) {
  if (IsSmall(network)) return {.padding = 4, .flip = true};
  return {.flip = true, .random_area = true};
}

Experiment ResNetExperiment(const v1::ResNetConfig& network) {
  return {
      .name = absl::StrCat("resnet", network.depth()),
      .source = {.open =
                     [network](const v1::ImageConfig& config) {
                       return OpenResNetImages(config, network);
                     },
                 .open_share =
                     [network](const v1::ImageConfig& config,
                               const TrainShare& share) {
                       return OpenResNetImages(config, network, share);
                     }},
      .network =
          [network](const ImageData& data) {
            return NewNetwork(network, data.train->num_classes());
          },
      .augmentation = ResNetAugmentation(network),
  };
}

}  // namespace images
