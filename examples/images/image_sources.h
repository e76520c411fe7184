// Where the images of the examples come from.

#ifndef OARLOCK_EXAMPLES_IMAGES_IMAGE_SOURCES_H_
#define OARLOCK_EXAMPLES_IMAGES_IMAGE_SOURCES_H_

#include <functional>
#include <optional>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "data/images/image_dataset.h"
#include "data/images/synthetic_images.h"
#include "examples/images/training_images.h"

namespace images {

// Both splits of a folder with files of many images; with a share no more
// training images than that.
using LoadImages = std::function<absl::StatusOr<ImageData>(
    const std::string& folder, const std::optional<TrainShare>& share)>;

absl::StatusOr<ImageData> LoadCifar10(const std::string& folder,
                                      const std::optional<TrainShare>& share);

// Training images as `options` say, and a fourth as many of the test.
absl::StatusOr<ImageData> DrawImages(
    oarlock::data::SyntheticImagesOptions options);

// InvalidArgument: the images of `folder` are files of their own, which
// --partition data_files does not deal out.
absl::Status RefuseFileList(const std::string& folder);

// --synthetic images of `shape`, which is square; folder/train/CLASS/FILE; else
// what `load` knows.
ImageSource SourceOf(const oarlock::data::ImageShape& shape,
                     const LoadImages& load);

}  // namespace images

#endif  // OARLOCK_EXAMPLES_IMAGES_IMAGE_SOURCES_H_
