#include "data/images/idx.h"

#include <array>
#include <cstddef>
#include <filesystem>
#include <optional>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/types/span.h"
#include "base/status_macros.h"
#include "data/images/image_files.h"
#include "data/reader/compressed_source.h"

namespace oarlock::data {
namespace {

constexpr uint32_t kImageMagic = 0x00000803;
constexpr uint32_t kLabelMagic = 0x00000801;
constexpr uint64_t kImagesHeaderBytes = 16;
constexpr uint64_t kLabelsHeaderBytes = 8;
constexpr absl::string_view kSource =
    "yann.lecun.com/exdb/mnist or a mirror of it (they may stay compressed)";

// Reads the next `Count` numbers of a header.
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

// Reads the `size` bytes after a header. More bytes, or fewer, are an error.
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

std::string ImagesName(absl::string_view prefix) {
  return absl::StrCat(prefix, "-images-idx3-ubyte");
}
std::string LabelsName(absl::string_view prefix) {
  return absl::StrCat(prefix, "-labels-idx1-ubyte");
}

absl::Status CheckLabels(const std::string& path, absl::Span<const uint8_t> all,
                         uint64_t first, uint32_t num_classes) {
  for (size_t i = 0; i < all.size(); ++i) {
    if (all[i] < num_classes) continue;
    return BadImageFile(path,
                        absl::StrFormat("label %d is %d", first + i, all[i]),
                        absl::StrCat("0 to ", num_classes - 1));
  }
  return absl::OkStatus();
}

absl::Status CheckLengths(const IdxFiles& files, uint64_t num_images,
                          uint64_t num_labels) {
  if (num_labels == num_images) return absl::OkStatus();
  return BadImageFile(
      files.labels, absl::StrCat("it has ", num_labels, " labels"),
      absl::StrCat(num_images, ", as many as images in '", files.images, "'"));
}

// The images and labels of several files.
struct Gathered {
  ImageShape shape;
  std::vector<uint8_t> pixels;
  std::vector<uint32_t> labels;
};

absl::Status Append(const IdxFiles& files, const ImageShape& shape,
                    std::vector<uint8_t> pixels,
                    const std::vector<uint8_t>& labels, Gathered* all) {
  if (all->labels.empty()) all->shape = shape;
  if (!(shape == all->shape)) {
    return BadImageFile(
        files.images,
        absl::StrFormat("its images are %d x %d", shape.height, shape.width),
        absl::StrFormat("%d x %d, as in the files before it", all->shape.height,
                        all->shape.width));
  }
  if (all->pixels.size() + pixels.size() > MemoryImages::kMaxBytes) {
    return BadImageFile(files.images, "there are more images than fit",
                        absl::StrCat(MemoryImages::kMaxBytes >> 30, " GiB"));
  }
  if (all->pixels.empty()) {
    all->pixels = std::move(pixels);
  } else {
    all->pixels.insert(all->pixels.end(), pixels.begin(), pixels.end());
  }
  all->labels.insert(all->labels.end(), labels.begin(), labels.end());
  return absl::OkStatus();
}

// Reads `size` bytes from `begin` on of the file at `path`. Fewer bytes are an
// error.
absl::StatusOr<std::vector<uint8_t>> ReadPart(const std::string& path,
                                              uint64_t begin, uint64_t size) {
  OARLOCK_ASSIGN_OR_RETURN(const std::unique_ptr<ByteSource> source,
                           OpenDecompressed(path));
  if (CompressionOf(path) == Compression::kNone) {
    OARLOCK_RETURN_IF_ERROR(source->Seek(begin));
  } else {
    OARLOCK_RETURN_IF_ERROR(SkipUpTo(source.get(), begin).status());
  }
  OARLOCK_ASSIGN_OR_RETURN(std::vector<uint8_t> bytes,
                           ReadGrowing(source.get(), size));
  if (bytes.size() == size) return bytes;
  return BadImageFile(path, absl::StrCat("it ends before byte ", begin + size),
                      "the length that its header says");
}

// Reads the header of a file of images. The result has no pixels.
absl::StatusOr<IdxImages> ReadImagesHeader(const std::string& path,
                                           ByteSource* source) {
  OARLOCK_ASSIGN_OR_RETURN(const auto magic, ReadHeader<1>(path, source));
  OARLOCK_RETURN_IF_ERROR(CheckMagic(path, magic[0], kImageMagic, "images"));
  OARLOCK_ASSIGN_OR_RETURN(const auto sizes, ReadHeader<3>(path, source));
  IdxImages images = {
      .count = sizes[0], .height = sizes[1], .width = sizes[2], .pixels = {}};
  constexpr uint32_t kMaxSide = MemoryImages::kMaxSide;
  // In two steps: the product of all three may not fit.
  const bool sides_fit = images.height >= 1 && images.height <= kMaxSide &&
                         images.width >= 1 && images.width <= kMaxSide;
  const uint64_t each = sides_fit ? uint64_t{images.height} * images.width : 1;
  if (sides_fit && images.count > 0 &&
      images.count <= MemoryImages::kMaxBytes / each) {
    return images;
  }
  return BadImageFile(
      path,
      absl::StrFormat("its header says %d images of %d x %d", images.count,
                      images.height, images.width),
      absl::StrFormat("at least 1 image, sides of 1 to %d, %d GiB together",
                      kMaxSide, MemoryImages::kMaxBytes >> 30));
}

absl::StatusOr<uint32_t> ReadLabelsHeader(const std::string& path,
                                          ByteSource* source) {
  OARLOCK_ASSIGN_OR_RETURN(const auto magic, ReadHeader<1>(path, source));
  OARLOCK_RETURN_IF_ERROR(CheckMagic(path, magic[0], kLabelMagic, "labels"));
  OARLOCK_ASSIGN_OR_RETURN(const auto sizes, ReadHeader<1>(path, source));
  if (sizes[0] == 0) {
    return BadImageFile(path, "its header says 0 labels", "at least 1");
  }
  return sizes[0];
}

ImageShape ShapeOf(const IdxImages& images) {
  return {.height = images.height, .width = images.width, .channels = 1};
}

// Reads the headers of both files. Different counts are an error.
absl::StatusOr<IdxImages> ReadHeaders(const IdxFiles& files) {
  OARLOCK_ASSIGN_OR_RETURN(std::unique_ptr<ByteSource> source,
                           OpenDecompressed(files.images));
  OARLOCK_ASSIGN_OR_RETURN(IdxImages images,
                           ReadImagesHeader(files.images, source.get()));
  OARLOCK_ASSIGN_OR_RETURN(source, OpenDecompressed(files.labels));
  OARLOCK_ASSIGN_OR_RETURN(const uint32_t num_labels,
                           ReadLabelsHeader(files.labels, source.get()));
  OARLOCK_RETURN_IF_ERROR(CheckLengths(files, images.count, num_labels));
  return images;
}

}  // namespace

absl::StatusOr<IdxImages> ReadIdxImages(const std::string& name,
                                        ByteSource* source) {
  OARLOCK_ASSIGN_OR_RETURN(IdxImages images, ReadImagesHeader(name, source));
  OARLOCK_ASSIGN_OR_RETURN(
      images.pixels,
      ReadRest(name, images.count * ShapeOf(images).size(), source));
  return images;
}

absl::StatusOr<std::vector<uint8_t>> ReadIdxLabels(const std::string& name,
                                                   ByteSource* source) {
  OARLOCK_ASSIGN_OR_RETURN(const uint32_t count,
                           ReadLabelsHeader(name, source));
  return ReadRest(name, count, source);
}

absl::StatusOr<std::vector<IdxFiles>> FindIdxFiles(const std::string& folder,
                                                   ImageSplit split) {
  const std::string prefix = split == ImageSplit::kTrain ? "train" : "t10k";
  const std::string ending = ImagesName("");
  std::vector<IdxFiles> all;
  for (std::string& path : FindImageFiles(folder, prefix, ending)) {
    const std::string name = std::filesystem::path(path).filename().string();
    const std::string stem = name.substr(0, name.rfind(ending));
    std::optional<std::string> labels = FindImageFile(folder, LabelsName(stem));
    if (!labels.has_value()) {
      return NoImageData(folder, FormsOf(LabelsName(stem)), kSource);
    }
    all.push_back({.images = std::move(path), .labels = *std::move(labels)});
  }
  if (!all.empty()) return all;
  return NoImageData(folder, FormsOf(ImagesName(prefix)), kSource);
}

absl::StatusOr<std::unique_ptr<MemoryImages>> LoadIdx(const std::string& folder,
                                                      ImageSplit split,
                                                      uint32_t num_classes) {
  OARLOCK_ASSIGN_OR_RETURN(const std::vector<IdxFiles> all_files,
                           FindIdxFiles(folder, split));
  Gathered all;
  for (const IdxFiles& files : all_files) {
    OARLOCK_ASSIGN_OR_RETURN(std::unique_ptr<ByteSource> source,
                             OpenDecompressed(files.images));
    OARLOCK_ASSIGN_OR_RETURN(IdxImages images,
                             ReadIdxImages(files.images, source.get()));
    OARLOCK_ASSIGN_OR_RETURN(source, OpenDecompressed(files.labels));
    OARLOCK_ASSIGN_OR_RETURN(const std::vector<uint8_t> labels,
                             ReadIdxLabels(files.labels, source.get()));
    OARLOCK_RETURN_IF_ERROR(CheckLengths(files, images.count, labels.size()));
    OARLOCK_RETURN_IF_ERROR(
        CheckLabels(files.labels, labels, /*first=*/0, num_classes));
    OARLOCK_RETURN_IF_ERROR(
        Append(files, ShapeOf(images), std::move(images.pixels), labels, &all));
  }
  return std::make_unique<MemoryImages>(
      all.shape, num_classes, std::move(all.pixels), std::move(all.labels));
}

absl::StatusOr<std::unique_ptr<MemoryImages>> LoadIdxShare(
    const std::string& folder, ImageSplit split, uint32_t rank, uint32_t size,
    UnevenRule rule, uint32_t num_classes) {
  OARLOCK_ASSIGN_OR_RETURN(const std::vector<IdxFiles> all_files,
                           FindIdxFiles(folder, split));
  std::vector<uint64_t> counts;
  std::vector<ImageShape> shapes;
  for (const IdxFiles& files : all_files) {
    OARLOCK_ASSIGN_OR_RETURN(const IdxImages header, ReadHeaders(files));
    counts.push_back(header.count);
    shapes.push_back(ShapeOf(header));
  }
  OARLOCK_ASSIGN_OR_RETURN(const std::vector<FilePart> parts,
                           PartsOfRank(counts, rank, size, rule));
  Gathered all;
  for (const FilePart& part : parts) {
    const IdxFiles& files = all_files[part.file];
    const ImageShape& shape = shapes[part.file];
    const uint64_t count = part.end - part.begin;
    OARLOCK_ASSIGN_OR_RETURN(
        std::vector<uint8_t> pixels,
        ReadPart(files.images, kImagesHeaderBytes + part.begin * shape.size(),
                 count * shape.size()));
    OARLOCK_ASSIGN_OR_RETURN(
        const std::vector<uint8_t> labels,
        ReadPart(files.labels, kLabelsHeaderBytes + part.begin, count));
    OARLOCK_RETURN_IF_ERROR(
        CheckLabels(files.labels, labels, part.begin, num_classes));
    OARLOCK_RETURN_IF_ERROR(
        Append(files, shape, std::move(pixels), labels, &all));
  }
  return std::make_unique<MemoryImages>(
      all.shape, num_classes, std::move(all.pixels), std::move(all.labels));
}

}  // namespace oarlock::data
