#include "examples/images/image_sources.h"

#include <utility>

#include "absl/strings/str_cat.h"
#include "base/status_macros.h"
#include "data/images/cifar.h"
#include "examples/images/folder_images.h"

namespace images {

using oarlock::data::ImageSplit;

absl::StatusOr<ImageData> LoadCifar10(const std::string& folder,
                                      const std::optional<TrainShare>& share) {
  ImageData data;
  if (share.has_value()) {
    OARLOCK_ASSIGN_OR_RETURN(
        oarlock::data::CifarShare own,
        oarlock::data::LoadCifarShare(folder, ImageSplit::kTrain,
                                      oarlock::data::CifarKind::kCifar10,
                                      share->rank, share->size, share->uneven));
    data.train = std::move(own.images);
  } else {
    OARLOCK_ASSIGN_OR_RETURN(
        data.train, oarlock::data::LoadCifar(folder, ImageSplit::kTrain));
  }
  OARLOCK_ASSIGN_OR_RETURN(data.test,
                           oarlock::data::LoadCifar(folder, ImageSplit::kTest));
  return data;
}

absl::StatusOr<ImageData> DrawImages(
    oarlock::data::SyntheticImagesOptions options) {
  ImageData data;
  OARLOCK_ASSIGN_OR_RETURN(data.train,
                           oarlock::data::NewSyntheticImages(options));
  options.split = ImageSplit::kTest;
  options.num_examples /= 4;
  OARLOCK_ASSIGN_OR_RETURN(data.test,
                           oarlock::data::NewSyntheticImages(options));
  return data;
}

absl::Status RefuseFileList(const std::string& folder) {
  return absl::InvalidArgumentError(absl::StrCat(
      "--partition is data_files, which deals out files of many images; '",
      folder,
      "' has a file for each; legal for them are images and image_files"));
}

ImageSource SourceOf(const oarlock::data::ImageShape& shape,
                     const LoadImages& load) {
  ImageSource source;
  source.open =
      [shape,
       load](const v1::ImageConfig& config) -> absl::StatusOr<ImageData> {
    const std::string& folder = config.data_dir();
    if (config.synthetic()) {
      oarlock::data::SyntheticImagesOptions options;
      options.shape = shape;
      options.seed = config.seed();
      return DrawImages(options);
    }
    if (IsFileList(folder)) {
      return OpenFileList(folder, shape.width, shape.channels);
    }
    return load(folder, std::nullopt);
  };
  source.open_share =
      [load](const v1::ImageConfig& config,
             const TrainShare& share) -> absl::StatusOr<ImageData> {
    const std::string& folder = config.data_dir();
    if (IsFileList(folder)) return RefuseFileList(folder);
    return load(folder, share);
  };
  return source;
}

}  // namespace images
