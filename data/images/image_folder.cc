#include "data/images/image_folder.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <filesystem>
#include <system_error>

#include "absl/status/status.h"
#include "absl/strings/ascii.h"
#include "absl/strings/escaping.h"
#include "absl/strings/match.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "absl/strings/string_view.h"
#include "base/check.h"
#include "base/random.h"
#include "base/status_macros.h"
#include "data/images/image_decoder.h"
#include "data/images/image_files.h"
#include "data/images/resize.h"
#include "data/reader/byte_source.h"

namespace oarlock::data {
namespace {

namespace fs = std::filesystem;

constexpr absl::string_view kLayout =
    "image-net.org or another source, so that the folder has a folder of .jpg "
    "or .png files for each class,";
// The most bytes of a file, and of a list of files.
constexpr uint64_t kMaxFileBytes = uint64_t{256} << 20;
constexpr uint64_t kMaxListBytes = uint64_t{4} << 30;
// The most characters of a line that an error shows.
constexpr size_t kMaxShownBytes = 80;

// The names of the folders, or of the files, in `folder`, in the order of their
// bytes, except names that begin with ".".
absl::StatusOr<std::vector<std::string>> NamesIn(const std::string& folder,
                                                 bool folders) {
  std::vector<std::string> names;
  std::error_code error;
  for (fs::directory_iterator it(folder, error), end; !error && it != end;
       it.increment(error)) {
    std::error_code ignored;
    if (it->is_directory(ignored) != folders) continue;
    std::string name = it->path().filename().string();
    if (!absl::StartsWith(name, ".")) names.push_back(std::move(name));
  }
  if (error) {
    return absl::UnavailableError(absl::StrCat("cannot list image folder '",
                                               folder, "': ", error.message()));
  }
  std::sort(names.begin(), names.end());
  return names;
}

bool HasImageName(const std::string& name) {
  const std::string lower = absl::AsciiStrToLower(name);
  return absl::EndsWith(lower, ".jpg") || absl::EndsWith(lower, ".jpeg") ||
         absl::EndsWith(lower, ".png");
}

absl::Status CheckOptions(const ImageFolderOptions& options) {
  if (options.side < 1 || options.side > MemoryImages::kMaxSide) {
    return absl::InvalidArgumentError(absl::StrCat(
        "image folder: side is ", options.side, "; legal is 1 to ",
        MemoryImages::kMaxSide, "; correct the data set's options"));
  }
  if (!(options.middle_share > 0 && options.middle_share <= 1)) {
    return absl::InvalidArgumentError(absl::StrCat(
        "image folder: middle_share is ", options.middle_share,
        "; legal is above 0 and up to 1; correct the data set's options"));
  }
  return absl::OkStatus();
}

// The middle of an image: a square.
ImageArea MiddleOf(const ImageExtent& extent, double share) {
  const double side = share * std::min(extent.height, extent.width);
  return {.top = (extent.height - side) / 2,
          .left = (extent.width - side) / 2,
          .height = side,
          .width = side};
}

ImageArea RandomArea(const ImageExtent& extent, uint64_t seed) {
  constexpr int kTries = 10;
  constexpr double kLeastShare = 0.08;
  const double log_ratio = std::log(4.0 / 3.0);
  const double all = static_cast<double>(extent.height) * extent.width;
  RandomSequence random(seed);
  for (int i = 0; i < kTries; ++i) {
    const double share = kLeastShare + (1 - kLeastShare) * random.Uniform();
    const double ratio = std::exp(log_ratio * (2 * random.Uniform() - 1));
    const double width = std::sqrt(share * all * ratio);
    const double height = std::sqrt(share * all / ratio);
    if (width > extent.width || height > extent.height) continue;
    return {.top = random.Uniform() * (extent.height - height),
            .left = random.Uniform() * (extent.width - width),
            .height = height,
            .width = width};
  }
  return MiddleOf(extent, 1);
}

// The largest factor by which a JPEG may be reduced while it is decoded so that
// the sides of `area` still have `side` pixels.
uint32_t ShrinkFor(const ImageArea& area, uint32_t side) {
  for (const uint32_t shrink : {8u, 4u, 2u}) {
    const double least = static_cast<double>(shrink) * side;
    if (std::min(area.height, area.width) >= least) return shrink;
  }
  return 1;
}

// Converts `area` of an image of size `extent` to the decoded image, which may
// be smaller.
ImageArea OnDecoded(const ImageArea& area, const ImageExtent& extent,
                    const RgbImage& image) {
  const double down = static_cast<double>(image.height) / extent.height;
  const double right = static_cast<double>(image.width) / extent.width;
  ImageArea moved = {.top = area.top * down,
                     .left = area.left * right,
                     .height = area.height * down,
                     .width = area.width * right};
  // Rounding errors must not move it outside the image.
  moved.height = std::min(moved.height, image.height - moved.top);
  moved.width = std::min(moved.width, image.width - moved.left);
  while (moved.top + moved.height > image.height) {
    moved.height = std::nextafter(moved.height, 0.0);
  }
  while (moved.left + moved.width > image.width) {
    moved.width = std::nextafter(moved.width, 0.0);
  }
  return moved;
}

absl::StatusOr<std::string> ReadFile(const std::string& path,
                                     uint64_t max_bytes) {
  OARLOCK_ASSIGN_OR_RETURN(const std::unique_ptr<ByteSource> source,
                           OpenFile(path));
  OARLOCK_ASSIGN_OR_RETURN(const std::vector<uint8_t> bytes,
                           ReadGrowing(source.get(), max_bytes + 1));
  if (bytes.size() > max_bytes) {
    return absl::DataLossError(
        absl::StrCat("'", path, "': it has more than ", max_bytes >> 20,
                     " MiB; legal is up to that; take it out of its folder"));
  }
  return std::string(bytes.begin(), bytes.end());
}

struct ListedImage {
  absl::string_view path;
  uint32_t label = 0;
};

// Parses a line of a list, without blanks around it; false if it has another
// form.
bool ParseListLine(absl::string_view line, ListedImage* image) {
  const size_t blank = line.find_last_of(" \t");
  if (blank == absl::string_view::npos) return false;
  image->path = absl::StripTrailingAsciiWhitespace(line.substr(0, blank));
  return absl::SimpleAtoi(line.substr(blank + 1), &image->label);
}

absl::Status BadListLine(const std::string& list, uint64_t line,
                         absl::string_view text, uint32_t num_classes) {
  return absl::InvalidArgumentError(absl::StrCat(
      "'", list, "':", line, ": the line is \"",
      absl::CHexEscape(text.substr(0, kMaxShownBytes)),
      "\"; legal is a path, a space and the number of a class, 0 to ",
      num_classes - 1, "; correct the list"));
}

}  // namespace

absl::StatusOr<std::unique_ptr<ImageFolder>> ImageFolder::Open(
    const std::string& folder, const ImageFolderOptions& options) {
  OARLOCK_RETURN_IF_ERROR(CheckOptions(options));
  if (!IsImageFolder(folder)) {
    return NoImageData(folder, "images by class", kLayout);
  }
  OARLOCK_ASSIGN_OR_RETURN(const std::vector<std::string> found,
                           NamesIn(folder, /*folders=*/true));
  std::unique_ptr<ImageFolder> images(new ImageFolder(folder, options));
  std::vector<std::string>& classes = images->options_.class_names;
  if (classes.empty()) classes = found;
  std::optional<std::string> empty_class;
  for (uint32_t label = 0; label < classes.size(); ++label) {
    if (!std::binary_search(found.begin(), found.end(), classes[label])) {
      continue;
    }
    OARLOCK_ASSIGN_OR_RETURN(
        const std::vector<std::string> names,
        NamesIn(absl::StrCat(folder, "/", classes[label]), /*folders=*/false));
    const size_t before = images->files_.size();
    for (const std::string& name : names) {
      if (!HasImageName(name)) continue;
      images->files_.push_back(
          {.label = label, .path = absl::StrCat(classes[label], "/", name)});
    }
    if (images->files_.size() == before && options.class_names.empty()) {
      empty_class = classes[label];
    }
  }
  for (const std::string& name : found) {
    if (std::find(classes.begin(), classes.end(), name) != classes.end()) {
      continue;
    }
    return absl::InvalidArgumentError(absl::StrCat(
        "'", folder, "' has the class '", name, "'; legal are the ",
        classes.size(), " classes of the training images; move it away"));
  }
  if (images->files_.empty()) {
    return NoImageData(folder, "image of a class", kLayout);
  }
  if (empty_class.has_value()) {
    return absl::InvalidArgumentError(absl::StrCat(
        "'", folder, "' has the class '", *empty_class,
        "' without an image; "
        "legal is at least one .jpg or .png file in each class; fill its "
        "folder or take it away"));
  }
  return images;
}

absl::StatusOr<std::unique_ptr<ImageFolder>> ImageFolder::OpenList(
    const std::string& folder, const std::string& list,
    const ImageFolderOptions& options) {
  OARLOCK_RETURN_IF_ERROR(CheckOptions(options));
  OARLOCK_ASSIGN_OR_RETURN(const std::string text,
                           ReadFile(list, kMaxListBytes));
  std::unique_ptr<ImageFolder> images(new ImageFolder(folder, options));
  std::vector<std::string>& classes = images->options_.class_names;
  const auto most_classes =
      classes.empty() ? kMaxClasses : static_cast<uint32_t>(classes.size());
  uint32_t num_classes = 0;
  uint64_t number = 0;
  for (absl::string_view line : absl::StrSplit(text, '\n')) {
    ++number;
    line = absl::StripAsciiWhitespace(line);
    if (line.empty()) continue;
    ListedImage image;
    if (!ParseListLine(line, &image) || image.label >= most_classes) {
      return BadListLine(list, number, line, most_classes);
    }
    num_classes = std::max(num_classes, image.label + 1);
    images->files_.push_back(
        {.label = image.label, .path = std::string(image.path)});
  }
  if (images->files_.empty()) {
    return absl::NotFoundError(
        absl::StrCat("the list '", list,
                     "' has no line; legal are lines of a path, a space "
                     "and the number of a class; fill it"));
  }
  if (classes.empty()) {
    for (uint32_t i = 0; i < num_classes; ++i) {
      classes.push_back(absl::StrCat(i));
    }
  }
  return images;
}

std::string ImageFolder::path(uint64_t example) const {
  OARLOCK_CHECK(example < files_.size());
  // A list may have absolute paths.
  return (fs::path(folder_) / files_[example].path).string();
}

absl::StatusOr<const uint8_t*> ImageFolder::Pixels(
    uint64_t example, std::optional<uint64_t> area_seed,
    uint8_t* scratch) const {
  const std::string file = path(example);
  OARLOCK_ASSIGN_OR_RETURN(const std::string bytes,
                           ReadFile(file, kMaxFileBytes));
  OARLOCK_ASSIGN_OR_RETURN(const ImageExtent extent,
                           ReadImageExtent(file, bytes));
  const ImageArea area = area_seed.has_value()
                             ? RandomArea(extent, *area_seed)
                             : MiddleOf(extent, options_.middle_share);
  OARLOCK_ASSIGN_OR_RETURN(
      const RgbImage image,
      DecodeImage(file, bytes, ShrinkFor(area, options_.side)));
  ResizeArea(image, OnDecoded(area, extent, image), options_.side,
             options_.side, scratch);
  return scratch;
}

absl::StatusOr<std::string> FolderOfSplit(const std::string& folder,
                                          ImageSplit split) {
  const std::vector<std::string> names =
      split == ImageSplit::kTrain ? std::vector<std::string>{"train"}
                                  : std::vector<std::string>{"val", "test"};
  for (const std::string& name : names) {
    std::string path = absl::StrCat(folder, "/", name);
    if (IsImageFolder(path)) return path;
  }
  return NoImageData(
      folder,
      split == ImageSplit::kTrain ? "folder 'train'" : "folder 'val' or 'test'",
      kLayout);
}

}  // namespace oarlock::data
