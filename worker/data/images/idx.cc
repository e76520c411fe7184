#include "worker/data/images/idx.h"

#include <array>
#include <cstddef>
#include <optional>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "base/status_macros.h"
#include "worker/data/compressed_source.h"
#include "worker/data/images/image_files.h"

namespace oarlock {
namespace {

constexpr uint32_t kImageMagic = 0x00000803;
constexpr uint32_t kLabelMagic = 0x00000801;
constexpr absl::string_view kSource =
    "yann.lecun.com/exdb/mnist or a mirror of it (they may stay compressed)";

// The next `Count` numbers of a header.
template <size_t Count>
absl::StatusOr<std::array<uint32_t, Count>> ReadHeader(const std::string& name,
                                                       ByteSource* source) {
  uint8_t bytes[4 * Count];
  OARLOCK_ASSIGN_OR_RETURN(const size_t n,
                           ReadUpTo(source, bytes, sizeof(bytes)));
  if (n < sizeof(bytes)) {
    return BadImageFile(name, absl::StrCat("it ends after ", n, " bytes"),
                        absl::StrCat("a header of ", sizeof(bytes)));
  }
  std::array<uint32_t, Count> numbers;
  for (size_t i = 0; i < Count; ++i) {
    const uint8_t* b = bytes + 4 * i;
    numbers[i] = uint32_t{b[0]} << 24 | uint32_t{b[1]} << 16 |
                 uint32_t{b[2]} << 8 | uint32_t{b[3]};
  }
  return numbers;
}

absl::Status CheckMagic(const std::string& name, uint32_t magic, uint32_t legal,
                        absl::string_view what) {
  if (magic == legal) return absl::OkStatus();
  return BadImageFile(
      name, absl::StrFormat("it begins with %08x", magic),
      absl::StrFormat("%08x, the magic of an idx file of %s", legal, what));
}

// The `size` bytes after a header, which must be all.
absl::StatusOr<std::vector<uint8_t>> ReadRest(const std::string& name,
                                              uint64_t size,
                                              ByteSource* source) {
  OARLOCK_ASSIGN_OR_RETURN(std::vector<uint8_t> bytes,
                           ReadGrowing(source, size));
  const std::string legal =
      absl::StrCat("the ", size, " bytes that its header says");
  if (bytes.size() < size) {
    return BadImageFile(
        name, absl::StrCat("it has ", bytes.size(), " bytes of items"), legal);
  }
  uint8_t extra;
  OARLOCK_ASSIGN_OR_RETURN(const size_t more, ReadUpTo(source, &extra, 1));
  if (more != 0) {
    return BadImageFile(name, "it goes on after its items", legal);
  }
  return bytes;
}

absl::StatusOr<std::string> FindPart(const std::string& folder,
                                     const std::string& name) {
  std::optional<std::string> path = FindImageFile(folder, name);
  if (path.has_value()) return *std::move(path);
  return NoImageData(folder, absl::StrCat(name, "[.gz|.xz]"), kSource);
}

}  // namespace

absl::StatusOr<IdxImages> ReadIdxImages(const std::string& name,
                                        ByteSource* source) {
  OARLOCK_ASSIGN_OR_RETURN(const auto magic, ReadHeader<1>(name, source));
  OARLOCK_RETURN_IF_ERROR(CheckMagic(name, magic[0], kImageMagic, "images"));
  OARLOCK_ASSIGN_OR_RETURN(const auto sizes, ReadHeader<3>(name, source));
  IdxImages images = {
      .count = sizes[0], .height = sizes[1], .width = sizes[2], .pixels = {}};
  constexpr uint32_t kMaxSide = MemoryImages::kMaxSide;
  // In two steps: the product of all three may not fit.
  const bool sides_fit = images.height >= 1 && images.height <= kMaxSide &&
                         images.width >= 1 && images.width <= kMaxSide;
  const uint64_t each = sides_fit ? uint64_t{images.height} * images.width : 1;
  if (!sides_fit || images.count == 0 ||
      images.count > MemoryImages::kMaxBytes / each) {
    return BadImageFile(
        name,
        absl::StrFormat("its header says %d images of %d x %d", images.count,
                        images.height, images.width),
        absl::StrFormat("at least 1 image, sides of 1 to %d, %d GiB together",
                        kMaxSide, MemoryImages::kMaxBytes >> 30));
  }
  OARLOCK_ASSIGN_OR_RETURN(images.pixels,
                           ReadRest(name, images.count * each, source));
  return images;
}

absl::StatusOr<std::vector<uint8_t>> ReadIdxLabels(const std::string& name,
                                                   ByteSource* source) {
  OARLOCK_ASSIGN_OR_RETURN(const auto magic, ReadHeader<1>(name, source));
  OARLOCK_RETURN_IF_ERROR(CheckMagic(name, magic[0], kLabelMagic, "labels"));
  OARLOCK_ASSIGN_OR_RETURN(const auto sizes, ReadHeader<1>(name, source));
  if (sizes[0] == 0) {
    return BadImageFile(name, "its header says 0 labels", "at least 1");
  }
  return ReadRest(name, sizes[0], source);
}

absl::StatusOr<std::unique_ptr<MemoryImages>> LoadIdx(const std::string& folder,
                                                      ImageSplit split,
                                                      uint32_t num_classes) {
  const std::string prefix = split == ImageSplit::kTrain ? "train" : "t10k";
  OARLOCK_ASSIGN_OR_RETURN(
      const std::string images_path,
      FindPart(folder, absl::StrCat(prefix, "-images-idx3-ubyte")));
  OARLOCK_ASSIGN_OR_RETURN(
      const std::string labels_path,
      FindPart(folder, absl::StrCat(prefix, "-labels-idx1-ubyte")));
  OARLOCK_ASSIGN_OR_RETURN(std::unique_ptr<ByteSource> source,
                           OpenDecompressed(images_path));
  OARLOCK_ASSIGN_OR_RETURN(IdxImages images,
                           ReadIdxImages(images_path, source.get()));
  OARLOCK_ASSIGN_OR_RETURN(source, OpenDecompressed(labels_path));
  OARLOCK_ASSIGN_OR_RETURN(const std::vector<uint8_t> labels,
                           ReadIdxLabels(labels_path, source.get()));
  if (labels.size() != images.count) {
    return BadImageFile(labels_path,
                        absl::StrCat("it has ", labels.size(), " labels"),
                        absl::StrCat(images.count, ", as many as images in '",
                                     images_path, "'"));
  }
  for (size_t i = 0; i < labels.size(); ++i) {
    if (labels[i] < num_classes) continue;
    return BadImageFile(labels_path,
                        absl::StrFormat("label %d is %d", i, labels[i]),
                        absl::StrCat("0 to ", num_classes - 1));
  }
  return std::make_unique<MemoryImages>(
      ImageShape{.height = images.height, .width = images.width, .channels = 1},
      num_classes, std::move(images.pixels),
      std::vector<uint32_t>(labels.begin(), labels.end()));
}

}  // namespace oarlock
