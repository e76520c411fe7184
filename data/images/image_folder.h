// Images in one folder per class, or named by a list; each file is read when it
// is needed.

#ifndef OARLOCK_DATA_IMAGES_IMAGE_FOLDER_H_
#define OARLOCK_DATA_IMAGES_IMAGE_FOLDER_H_

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/statusor.h"
#include "data/images/image_dataset.h"

namespace oarlock::data {

struct ImageFolderOptions {
  // Height and width of the returned images, 1 to MemoryImages::kMaxSide.
  uint32_t side = 224;
  // The middle of a file is what remains when its shorter side is reduced to
  // `side` / middle_share and `side` is cut out; in (0, 1].
  double middle_share = 0.875;
  // Names of the classes, in the order of their numbers. For test images these
  // are the classes of the training images. Empty: the names of the folders, in
  // the order of their bytes; for a list, "0" to its largest label.
  std::vector<std::string> class_names = {};
};

// Images are the files `folder`/CLASS/FILE whose names end in .jpg, .jpeg or
// .png, in any case. Other files and names that begin with "." are skipped.
// Examples are in the order of classes and then of names. Open reads only
// names; Pixels returns an error for a damaged file.
//
// A random area covers a share of the file's area that is uniform in [.08, 1).
// The ratio of its sides is log-uniform in [3/4, 4/3), its place is uniform.
// After ten tries that do not fit, the middle is taken (Szegedy et al., "Going
// deeper with convolutions", CVPR 2015, section 6). Both areas are resized to
// [side, side].
class ImageFolder : public ImageDataset {
 public:
  // Labels of a list are below this.
  static constexpr uint32_t kMaxClasses = 1u << 20;

  // NotFound when `folder` is not a folder, when it has no folder of a class,
  // or when no class has an image. The error says what the folder should look
  // like. InvalidArgument when an option is outside its range, when a class is
  // not among class_names, or, where class_names is empty, when a class has no
  // image.
  static absl::StatusOr<std::unique_ptr<ImageFolder>> Open(
      const std::string& folder, const ImageFolderOptions& options);

  // The images that the file `list` names, in its order, with any names. A line
  // has a path in `folder`, spaces or tabs, and the number of the class, as in
  // PaddleClas's train_list.txt. NotFound when the list cannot be opened or is
  // empty. InvalidArgument, with the line, when a line has another form or its
  // label is not below kMaxClasses or the number of class_names.
  static absl::StatusOr<std::unique_ptr<ImageFolder>> OpenList(
      const std::string& folder, const std::string& list,
      const ImageFolderOptions& options);

  uint64_t size() const override { return files_.size(); }
  ImageShape shape() const override {
    return {.height = options_.side, .width = options_.side, .channels = 3};
  }
  uint32_t num_classes() const override {
    return static_cast<uint32_t>(options_.class_names.size());
  }
  uint32_t label(uint64_t example) const override {
    return files_[example].label;
  }
  absl::StatusOr<const uint8_t*> Pixels(uint64_t example,
                                        std::optional<uint64_t> area_seed,
                                        uint8_t* scratch) const override;

  // The names in the options, or the names found.
  const std::vector<std::string>& class_names() const {
    return options_.class_names;
  }
  std::string path(uint64_t example) const;

 private:
  struct File {
    uint32_t label = 0;
    std::string path;  // in folder_
  };

  ImageFolder(std::string folder, ImageFolderOptions options)
      : folder_(std::move(folder)), options_(std::move(options)) {}

  const std::string folder_;
  ImageFolderOptions options_;
  std::vector<File> files_;
};

// The subfolder of `folder` with the images of a split: train, or val or test.
// NotFound as above.
absl::StatusOr<std::string> FolderOfSplit(const std::string& folder,
                                          ImageSplit split);

}  // namespace oarlock::data

#endif  // OARLOCK_DATA_IMAGES_IMAGE_FOLDER_H_
