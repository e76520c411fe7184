// Images and labels in idx files, as MNIST comes in.
//
// The format (from the page of MNIST, yann.lecun.com/exdb/mnist): numbers are
// big-endian, 32 bits each; first the magic, whose third byte says the type of
// an item (8: unsigned byte) and whose fourth the number of dimensions, then
// the size of each dimension, then the items, the last dimension fastest.
// Images are [count, height, width] (magic 0x00000803), labels [count]
// (0x00000801).

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

// A whole file. `name` stands in errors: DataLoss when magic or sizes are
// other than said above, there is no image, a limit of MemoryImages is
// exceeded, or there are more or fewer bytes than the header says; those of
// `source` as they are.
absl::StatusOr<IdxImages> ReadIdxImages(const std::string& name,
                                        ByteSource* source);
absl::StatusOr<std::vector<uint8_t>> ReadIdxLabels(const std::string& name,
                                                   ByteSource* source);

// Two files of the same length.
struct IdxFiles {
  std::string images;
  std::string labels;
};
// The files of one split in `folder`: train-images-idx3-ubyte and
// train-labels-idx1-ubyte, or t10k-..., each plain, .gz, .xz or .zst. Where
// the images are in several files a part's name comes after train or t10k, as
// in train-0-images-idx3-ubyte; parts are in natural order. NotFound when a
// file is not there; the error says where to get it.
absl::StatusOr<std::vector<IdxFiles>> FindIdxFiles(const std::string& folder,
                                                   ImageSplit split);

// All of them, read; one channel. DataLoss when a file is damaged, two are of
// different length, images have different shapes, or a label is not below
// `num_classes`.
absl::StatusOr<std::unique_ptr<MemoryImages>> LoadIdx(
    const std::string& folder, ImageSplit split, uint32_t num_classes = 10);

// One rank's share of them: run number `rank` of `size` equal runs of all
// files' images (data/reader/file_partition.h), of which only its own parts of
// files are read, but for headers and what is before them in compressed files.
// Errors as LoadIdx has, for what is read, and PartsOfRank.
absl::StatusOr<std::unique_ptr<MemoryImages>> LoadIdxShare(
    const std::string& folder, ImageSplit split, uint32_t rank, uint32_t size,
    UnevenRule rule, uint32_t num_classes = 10);

}  // namespace oarlock::data

#endif  // OARLOCK_DATA_IMAGES_IDX_H_
