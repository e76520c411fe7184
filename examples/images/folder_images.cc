#include "examples/images/folder_images.h"

#include <memory>
#include <utility>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "base/status_macros.h"
#include "data/images/grey_images.h"
#include "data/images/image_files.h"
#include "data/images/image_folder.h"

namespace images {
namespace {

constexpr uint32_t kNumClasses = 10;

absl::StatusOr<std::unique_ptr<oarlock::data::ImageFolder>> OpenSplit(
    const std::string& folder, oarlock::data::ImageSplit split,
    const oarlock::data::ImageFolderOptions& options) {
  OARLOCK_ASSIGN_OR_RETURN(const std::string place,
                           oarlock::data::FolderOfSplit(folder, split));
  return oarlock::data::ImageFolder::Open(place, options);
}

std::unique_ptr<oarlock::data::ImageDataset> WithChannels(
    std::unique_ptr<oarlock::data::ImageDataset> images, uint32_t channels) {
  if (channels == 3) return images;
  return std::make_unique<oarlock::data::GreyImages>(std::move(images));
}

}  // namespace

bool IsFileList(const std::string& folder) {
  return oarlock::data::IsImageFolder(absl::StrCat(folder, "/train"));
}

absl::StatusOr<ImageData> OpenFileList(const std::string& folder, uint32_t side,
                                       uint32_t channels) {
  oarlock::data::ImageFolderOptions options;
  options.side = side;
  options.middle_share = 1;
  OARLOCK_ASSIGN_OR_RETURN(
      std::unique_ptr<oarlock::data::ImageFolder> train,
      OpenSplit(folder, oarlock::data::ImageSplit::kTrain, options));
  if (train->num_classes() != kNumClasses) {
    return absl::InvalidArgumentError(
        absl::StrCat("'", folder, "/train' has ", train->num_classes(),
                     " classes; legal for this network are ", kNumClasses,
                     ", a folder for each"));
  }
  options.class_names = train->class_names();
  OARLOCK_ASSIGN_OR_RETURN(
      std::unique_ptr<oarlock::data::ImageFolder> test,
      OpenSplit(folder, oarlock::data::ImageSplit::kTest, options));
  ImageData data;
  data.train = WithChannels(std::move(train), channels);
  data.test = WithChannels(std::move(test), channels);
  data.is_file_list = true;
  return data;
}

}  // namespace images
