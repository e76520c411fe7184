// Images and labels in idx files, the format of MNIST.
//
// The format (from the page of MNIST, yann.lecun.com/exdb/mnist): numbers are
// big-endian, 32 bits each. The first number is the magic. Its third byte is
// the type of an item (8: unsigned byte), its fourth byte the number of
// dimensions. Then come the size of each dimension and the items; the last
// dimension varies fastest. Images are [count, height, width] (magic
// 0x00000803), labels [count] (0x00000801).

#ifndef OARLOCK_DATA_IMAGES_IDX_H_
#define OARLOCK_DATA_IMAGES_IDX_H_

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "data/images/image_dataset.h"
#include "data/reader/byte_source.h"
#include "data/reader/file_partition.h"

namespace oarlock::data {

struct IdxImages {
  uint32_t count = 0;
  uint32_t height = 0;
  uint32_t width = 0;
  std::vector<uint8_t> pixels;  // [count, height, width]
};

// Reads a whole file. `name` is the file's name for errors. DataLoss when the
// magic or the sizes differ from the format above, when there is no image, when
// a limit of MemoryImages is exceeded, or when there are more or fewer bytes
// than the header says. Errors of `source` are returned as they are.
absl::StatusOr<IdxImages> ReadIdxImages(const std::string& name,
                                        ByteSource* source);
absl::StatusOr<std::vector<uint8_t>> ReadIdxLabels(const std::string& name,
                                                   ByteSource* source);

// A file of images and the file of their labels; both have the same number of
// items.
struct IdxFiles {
  std::string images;
  std::string labels;
};
// The files of one split in `folder`: train-images-idx3-ubyte and
// train-labels-idx1-ubyte, or t10k-..., each plain, .gz, .xz or .zst. Where the
// images are in several files, the name of the part follows train or t10k, as
// in train-0-images-idx3-ubyte. The parts are in natural order. NotFound when a
// file does not exist; the error says where to get it.
absl::StatusOr<std::vector<IdxFiles>> FindIdxFiles(const std::string& folder,
                                                   ImageSplit split);

// Reads all files that FindIdxFiles finds, as images of one channel. DataLoss
// when a file is damaged, when a file of images and its labels differ in
// length, when images have different shapes, or when a label is not below
// `num_classes`.
absl::StatusOr<std::unique_ptr<MemoryImages>> LoadIdx(
    const std::string& folder, ImageSplit split, uint32_t num_classes = 10);

// One rank's share of these images. The images of all files are cut into `size`
// equal runs (data/reader/file_partition.h), and the share is run number
// `rank`. Only the parts of files in this run are read, except for headers, and
// for what precedes the parts in compressed files. Errors are those of LoadIdx,
// for what is read, and of PartsOfRank.
absl::StatusOr<std::unique_ptr<MemoryImages>> LoadIdxShare(
    const std::string& folder, ImageSplit split, uint32_t rank, uint32_t size,
    UnevenRule rule, uint32_t num_classes = 10);

}  // namespace oarlock::data

#endif  // OARLOCK_DATA_IMAGES_IDX_H_
