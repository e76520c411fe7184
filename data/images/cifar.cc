#include "data/images/cifar.h"

#include <algorithm>
#include <filesystem>
#include <optional>
#include <system_error>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "base/check.h"
#include "base/status_macros.h"
#include "data/images/image_files.h"
#include "data/reader/compressed_source.h"

namespace oarlock::data {
namespace {

constexpr absl::string_view kSource =
    "www.cs.toronto.edu/~kriz/cifar.html (the binary version)";
constexpr int kNumDataBatches = 5;
// Number of records read at a time.
constexpr size_t kRecordsPerRead = 256;

absl::string_view NameOf(CifarKind kind) {
  return kind == CifarKind::kCifar10 ? "CIFAR-10" : "CIFAR-100";
}

// Converts three planes to one image.
void Interleave(const uint8_t* planes, uint8_t* pixels) {
  constexpr size_t kPlane = size_t{kCifarShape.height} * kCifarShape.width;
  for (size_t i = 0; i < kPlane; ++i) {
    pixels[3 * i] = planes[i];
    pixels[3 * i + 1] = planes[kPlane + i];
    pixels[3 * i + 2] = planes[2 * kPlane + i];
  }
}

absl::Status AppendRecord(const std::string& name, CifarKind kind,
                          uint64_t number, const uint8_t* record,
                          CifarImages* images) {
  const size_t label_bytes = CifarRecordBytes(kind) - kCifarShape.size();
  const uint32_t label = record[label_bytes - 1];
  const uint32_t num_classes = static_cast<uint32_t>(kind);
  if (label >= num_classes) {
    return BadImageFile(
        name, absl::StrFormat("record %d has label %d", number, label),
        absl::StrFormat("0 to %d in a file of %s", num_classes - 1,
                        NameOf(kind)));
  }
  const size_t begin = images->pixels.size();
  if (begin + kCifarShape.size() > MemoryImages::kMaxBytes) {
    return BadImageFile(name, absl::StrCat("there are more images than fit"),
                        absl::StrCat(MemoryImages::kMaxBytes >> 30, " GiB"));
  }
  images->labels.push_back(label);
  images->pixels.resize(begin + kCifarShape.size());
  Interleave(record + label_bytes, images->pixels.data() + begin);
  return absl::OkStatus();
}

absl::Status NotWhole(const std::string& name, CifarKind kind,
                      uint64_t num_bytes) {
  return BadImageFile(name, absl::StrFormat("it has %d bytes", num_bytes),
                      absl::StrFormat("a multiple of %d, the record of %s",
                                      CifarRecordBytes(kind), NameOf(kind)));
}

std::unique_ptr<MemoryImages> InMemory(CifarKind kind, CifarImages images) {
  return std::make_unique<MemoryImages>(
      kCifarShape, static_cast<uint32_t>(kind), std::move(images.pixels),
      std::move(images.labels));
}

// The five official files; an empty list when no such file exists.
absl::StatusOr<std::vector<std::string>> FindDataBatches(
    const std::string& folder) {
  std::vector<std::string> paths;
  std::string missing;
  for (int i = 1; i <= kNumDataBatches; ++i) {
    const std::string name = absl::StrCat("data_batch_", i, ".bin");
    std::optional<std::string> path = FindImageFile(folder, name);
    if (path.has_value()) {
      paths.push_back(*std::move(path));
    } else if (missing.empty()) {
      missing = name;
    }
  }
  if (paths.empty() || missing.empty()) return paths;
  return absl::NotFoundError(absl::StrCat(
      "'", folder, "' has ", paths.size(), " of data_batch_1.bin to ",
      kNumDataBatches, ", without ", missing,
      "; legal are all of them, or any number of train*.bin; get what is "
      "missing from ",
      kSource));
}

}  // namespace

absl::Status AppendCifar(const std::string& name, CifarKind kind,
                         ByteSource* source, CifarImages* images) {
  const size_t record_bytes = CifarRecordBytes(kind);
  std::vector<uint8_t> buffer(kRecordsPerRead * record_bytes);
  uint64_t num_records = 0;
  size_t filled = 0;
  do {
    OARLOCK_ASSIGN_OR_RETURN(filled,
                             ReadUpTo(source, buffer.data(), buffer.size()));
    for (size_t at = 0; at + record_bytes <= filled; at += record_bytes) {
      OARLOCK_RETURN_IF_ERROR(
          AppendRecord(name, kind, num_records, buffer.data() + at, images));
      ++num_records;
    }
  } while (filled == buffer.size());
  const size_t rest = filled % record_bytes;
  if (rest == 0 && num_records > 0) return absl::OkStatus();
  return NotWhole(name, kind, num_records * record_bytes + rest);
}

absl::Status AppendCifarPart(const std::string& path, CifarKind kind,
                             uint64_t begin, uint64_t end,
                             CifarImages* images) {
  OARLOCK_CHECK(begin <= end);
  OARLOCK_ASSIGN_OR_RETURN(const std::unique_ptr<ByteSource> source,
                           OpenDecompressed(path));
  const size_t record_bytes = CifarRecordBytes(kind);
  if (CompressionOf(path) == Compression::kNone) {
    OARLOCK_RETURN_IF_ERROR(source->Seek(begin * record_bytes));
  } else {
    OARLOCK_RETURN_IF_ERROR(
        SkipUpTo(source.get(), begin * record_bytes).status());
  }
  std::vector<uint8_t> record(record_bytes);
  for (uint64_t i = begin; i < end; ++i) {
    OARLOCK_ASSIGN_OR_RETURN(
        const size_t n, ReadUpTo(source.get(), record.data(), record_bytes));
    if (n < record_bytes) {
      return BadImageFile(path, absl::StrCat("record ", i, " is not there"),
                          absl::StrCat("at least ", end, " records"));
    }
    OARLOCK_RETURN_IF_ERROR(AppendRecord(path, kind, i, record.data(), images));
  }
  return absl::OkStatus();
}

absl::StatusOr<uint64_t> CountCifar(const std::string& path, CifarKind kind) {
  uint64_t num_bytes = 0;
  if (CompressionOf(path) == Compression::kNone) {
    std::error_code error;
    num_bytes = std::filesystem::file_size(path, error);
    if (error) {
      return absl::NotFoundError(absl::StrCat("cannot tell the size of '", path,
                                              "': ", error.message()));
    }
  } else {
    OARLOCK_ASSIGN_OR_RETURN(const std::unique_ptr<ByteSource> source,
                             OpenDecompressed(path));
    OARLOCK_ASSIGN_OR_RETURN(
        num_bytes, SkipUpTo(source.get(), MemoryImages::kMaxBytes * 2));
  }
  if (num_bytes == 0 || num_bytes % CifarRecordBytes(kind) != 0) {
    return NotWhole(path, kind, num_bytes);
  }
  return num_bytes / CifarRecordBytes(kind);
}

absl::StatusOr<std::vector<std::string>> FindCifarFiles(
    const std::string& folder, ImageSplit split, CifarKind kind) {
  const std::string unpacked =
      absl::StrCat(folder, "/",
                   kind == CifarKind::kCifar10 ? "cifar-10-batches-bin"
                                               : "cifar-100-binary");
  const std::string& place = IsImageFolder(unpacked) ? unpacked : folder;
  std::vector<std::string> paths;
  if (split == ImageSplit::kTrain && kind == CifarKind::kCifar10) {
    OARLOCK_ASSIGN_OR_RETURN(paths, FindDataBatches(place));
  }
  const absl::string_view prefix =
      split == ImageSplit::kTrain ? "train" : "test";
  if (paths.empty()) paths = FindImageFiles(place, prefix, ".bin");
  if (!paths.empty()) return paths;
  return NoImageData(
      place,
      absl::StrFormat(
          "%s %s files (%s%s)", NameOf(kind), prefix,
          split == ImageSplit::kTrain && kind == CifarKind::kCifar10
              ? absl::StrCat(FormsOf("data_batch_1.bin"), " to 5, or ")
              : "",
          FormsOf(absl::StrCat(prefix, "*.bin"))),
      kSource);
}

absl::StatusOr<std::unique_ptr<MemoryImages>> LoadCifar(
    const std::string& folder, ImageSplit split, CifarKind kind) {
  OARLOCK_ASSIGN_OR_RETURN(const std::vector<std::string> paths,
                           FindCifarFiles(folder, split, kind));
  CifarImages images;
  for (const std::string& path : paths) {
    OARLOCK_ASSIGN_OR_RETURN(const std::unique_ptr<ByteSource> source,
                             OpenDecompressed(path));
    OARLOCK_RETURN_IF_ERROR(AppendCifar(path, kind, source.get(), &images));
  }
  return InMemory(kind, std::move(images));
}

absl::StatusOr<CifarShare> LoadCifarShare(const std::string& folder,
                                          ImageSplit split, CifarKind kind,
                                          uint32_t rank, uint32_t size,
                                          UnevenRule rule) {
  OARLOCK_ASSIGN_OR_RETURN(const std::vector<std::string> paths,
                           FindCifarFiles(folder, split, kind));
  std::vector<uint64_t> counts;
  for (const std::string& path : paths) {
    OARLOCK_ASSIGN_OR_RETURN(const uint64_t count, CountCifar(path, kind));
    counts.push_back(count);
  }
  OARLOCK_ASSIGN_OR_RETURN(const std::vector<FilePart> parts,
                           PartsOfRank(counts, rank, size, rule));
  CifarImages images;
  CifarShare share;
  for (const FilePart& part : parts) {
    OARLOCK_RETURN_IF_ERROR(
        AppendCifarPart(paths[part.file], kind, part.begin, part.end, &images));
    if (!part.is_padding) share.num_counted = images.labels.size();
  }
  share.images = InMemory(kind, std::move(images));
  return share;
}

}  // namespace oarlock::data
