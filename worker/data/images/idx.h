// Images and labels in idx files, as MNIST comes in.
//
// The format (from the page of MNIST, yann.lecun.com/exdb/mnist): numbers are
// big-endian, 32 bits each; first the magic, whose third byte says the type of
// an item (8: unsigned byte) and whose fourth the number of dimensions, then
// the size of each dimension, then the items, the last dimension fastest.
// Images are [count, height, width] (magic 0x00000803), labels [count]
// (0x00000801).

#ifndef OARLOCK_WORKER_DATA_IMAGES_IDX_H_
#define OARLOCK_WORKER_DATA_IMAGES_IDX_H_

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "worker/data/byte_source.h"
#include "worker/data/images/image_dataset.h"

namespace oarlock {

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

// The images of one split in `folder`: train-images-idx3-ubyte and
// train-labels-idx1-ubyte, or t10k-..., each plain, .gz or .xz; one channel.
// NotFound when a file is not there; the error says where to get it. DataLoss
// when one is damaged, the two are of different length, or a label is not
// below `num_classes`.
absl::StatusOr<std::unique_ptr<MemoryImages>> LoadIdx(
    const std::string& folder, ImageSplit split, uint32_t num_classes = 10);

}  // namespace oarlock

#endif  // OARLOCK_WORKER_DATA_IMAGES_IDX_H_
