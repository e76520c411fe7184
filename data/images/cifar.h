// CIFAR-10 and CIFAR-100 in their binary version.
//
// The format (www.cs.toronto.edu/~kriz/cifar.html): records without a header. A
// record of CIFAR-10 has 1 byte of label, then 3,072 bytes of pixels. A record
// of CIFAR-100 has 1 byte of coarse label (20 classes), 1 byte of fine label
// (100 classes), then the pixels. Pixels are three planes, red, green, blue,
// each [32, 32].

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
  // For CIFAR-100, the fine labels.
  std::vector<uint32_t> labels;
};

// Appends the records of a whole file. `name` is the file's name for errors.
// DataLoss when the file has no record, ends within a record, has a label
// outside the classes, or exceeds a limit of MemoryImages. After an error, some
// of the records may have been appended to `images`.
absl::Status AppendCifar(const std::string& name, CifarKind kind,
                         ByteSource* source, CifarImages* images);

// As AppendCifar, but only records number [begin, end) of the file at `path`.
// Nothing after them is read. DataLoss when the file has fewer. An uncompressed
// file is read from `begin` on.
absl::Status AppendCifarPart(const std::string& path, CifarKind kind,
                             uint64_t begin, uint64_t end, CifarImages* images);

// The number of records in the file at `path`. It follows from the size of an
// uncompressed file; any other file is read to its end. Errors are those of
// AppendCifar about sizes.
absl::StatusOr<uint64_t> CountCifar(const std::string& path, CifarKind kind);

// The files of one split. They are in `folder`, or in the folder that the
// official archive unpacks into it (cifar-10-batches-bin, cifar-100-binary).
// Their names are data_batch_1.bin to data_batch_5.bin and test_batch.bin, or
// train*.bin and test*.bin in natural order. The official files of CIFAR-100
// are of the second form. Each file is plain, .gz, .xz or .zst. NotFound when
// there is no file, or only some of the data_batch files.
absl::StatusOr<std::vector<std::string>> FindCifarFiles(
    const std::string& folder, ImageSplit split, CifarKind kind);

// Reads all files that FindCifarFiles finds. Errors are those of FindCifarFiles
// and AppendCifar.
absl::StatusOr<std::unique_ptr<MemoryImages>> LoadCifar(
    const std::string& folder, ImageSplit split,
    CifarKind kind = CifarKind::kCifar10);

// One rank's share of these images. The records of all files are cut into
// `size` equal runs (data/reader/file_partition.h), and the share is run number
// `rank`. Only the files of this run are read, except that compressed files are
// read to count their records. The number of ranks may not divide the number of
// records. Then no rank gets the last records (kDrop), or the last ranks get
// some records again at the end of their images (kPad). The first `num_counted`
// images are not such repetitions.
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
