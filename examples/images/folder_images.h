// The digits or objects of an example as a folder with a file for each image.

#ifndef OARLOCK_EXAMPLES_IMAGES_FOLDER_IMAGES_H_
#define OARLOCK_EXAMPLES_IMAGES_FOLDER_IMAGES_H_

#include <cstdint>
#include <string>

#include "absl/status/statusor.h"
#include "data/images/image_dataset.h"
#include "examples/images/training_images.h"

namespace images {

// Whether the training images of `folder` are files of their own:
// folder/train/CLASS/FILE.
bool IsFileList(const std::string& folder);

// Both splits of `folder` (data/images/image_folder.h): images of
// [side, side], one channel or three, of ten classes, numbered in the order of
// their names. InvalidArgument when there are more or fewer classes.
absl::StatusOr<ImageData> OpenFileList(const std::string& folder, uint32_t side,
                                       uint32_t channels);

}  // namespace images

#endif  // OARLOCK_EXAMPLES_IMAGES_FOLDER_IMAGES_H_
