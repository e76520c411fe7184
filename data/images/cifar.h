// CIFAR-10 and CIFAR-100 in their binary version.
//
// The format (www.cs.toronto.edu/~kriz/cifar.html): records without a header.
// CIFAR-10: 1 byte of label, then 3,072 of pixels; CIFAR-100: 1 byte of coarse
// label (20 classes), 1 of fine label (100), then the pixels. Pixels are three
// planes, red, green, blue, each [32, 32].

#ifndef OARLOCK_DATA_IMAGES_CIFAR_H_
#define OARLOCK_DATA_IMAGES_CIFAR_H_

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "data/images/image_dataset.h"
#include "data/reader/byte_source.h"
#include "data/reader/file_partition.h"

namespace oarlock::data {

// The number of classes of the labels.
enum class CifarKind : uint32_t { kCifar10 = 10, kCifar100 = 100 };

inline constexpr ImageShape kCifarShape = {
    .height = 32, .width = 32, .channels = 3};

// Bytes of a record.
constexpr size_t CifarRecordBytes(CifarKind kind) {
  return kCifarShape.size() + (kind == CifarKind::kCifar10 ? 1 : 2);
}

struct CifarImages {
  std::vector<uint8_t> pixels;  // [labels.size(), 32, 32, 3]
  // Of CIFAR-100 the fine ones.
  std::vector<uint32_t> labels;
};

// Appends the records of a whole file. `name` stands in errors: DataLoss when
// there is no record or a part of one, a label is not one, or a limit of
// MemoryImages is exceeded; `images` is as it was plus some records then.
absl::Status AppendCifar(const std::string& name, CifarKind kind,
                         ByteSource* source, CifarImages* images);

// As AppendCifar, but only records number [begin, end) of the file at `path`,
// and no further; DataLoss when there are fewer. An uncompressed file is read
// from `begin` on.
absl::Status AppendCifarPart(const std::string& path, CifarKind kind,
                             uint64_t begin, uint64_t end, CifarImages* images);

// Records of the file at `path`: of an uncompressed one by its size, any other
// is read through. Errors as AppendCifar has about sizes.
absl::StatusOr<uint64_t> CountCifar(const std::string& path, CifarKind kind);

// The files of one split in `folder`, or in the folder that the official
// archive unpacks into it (cifar-10-batches-bin, cifar-100-binary):
// data_batch_1.bin to data_batch_5.bin and test_batch.bin, or train*.bin and
// test*.bin in natural order (so are CIFAR-100's own); each plain, .gz, .xz or
// .zst. NotFound when there are none, or only some of the data_batch files.
absl::StatusOr<std::vector<std::string>> FindCifarFiles(
    const std::string& folder, ImageSplit split, CifarKind kind);

// All of them, read. Errors of both.
absl::StatusOr<std::unique_ptr<MemoryImages>> LoadCifar(
    const std::string& folder, ImageSplit split,
    CifarKind kind = CifarKind::kCifar10);

// One rank's share of them: run number `rank` of `size` equal runs of all
// files' records (data/reader/file_partition.h), of which only its own files
// are read, but for counting compressed ones. Where the number of ranks does
// not divide that of records the last ones are nobody's (kDrop), or some come
// again at the end of the last ranks' images (kPad): the first `num_counted`
// images are no repetitions.
struct CifarShare {
  std::unique_ptr<MemoryImages> images;
  uint64_t num_counted = 0;
};
absl::StatusOr<CifarShare> LoadCifarShare(const std::string& folder,
                                          ImageSplit split, CifarKind kind,
                                          uint32_t rank, uint32_t size,
                                          UnevenRule rule);

}  // namespace oarlock::data

#endif  // OARLOCK_DATA_IMAGES_CIFAR_H_
