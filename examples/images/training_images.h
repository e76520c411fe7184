// Which training images a worker takes, and in which order: PaddlePaddle's
// MNIST document has three ways of dividing data among workers and some choices
// about what does not come out even. Whatever is chosen, all workers have
// equally many batches, of the same sizes: one with a step more would wait for
// the others.

#ifndef OARLOCK_EXAMPLES_IMAGES_TRAINING_IMAGES_H_
#define OARLOCK_EXAMPLES_IMAGES_TRAINING_IMAGES_H_

#include <cstdint>
#include <functional>
#include <memory>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "data/images/image_dataset.h"
#include "data/reader/file_partition.h"
#include "examples/images/image_config.pb.h"
#include "fleet/data_parallel.h"

namespace images {

struct ImageData {
  std::unique_ptr<oarlock::data::ImageDataset> train;
  std::unique_ptr<oarlock::data::ImageDataset> test;
  // Each training image is a file of its own.
  bool is_file_list = false;
};

// One worker's share of the training data.
struct TrainShare {
  uint32_t rank = 0;
  uint32_t size = 1;
  oarlock::data::UnevenRule uneven = oarlock::data::UnevenRule::kDrop;
};

struct ImageSource {
  // All images of --data_dir or --synthetic.
  std::function<absl::StatusOr<ImageData>(const v1::ImageConfig& config)> open;
  // The same with no more training images than a share (LoadIdxShare,
  // LoadCifarShare). Null: the data are not in files of many images.
  std::function<absl::StatusOr<ImageData>(const v1::ImageConfig& config,
                                          const TrainShare& share)>
      open_share = nullptr;
};

struct TrainingImages {
  ImageData data;
  // For --partition image_files: a worker's own files of data.train.
  std::unique_ptr<oarlock::data::ImageDataset> own_files;
  // What the sampler's numbers are: one of the two above.
  const oarlock::data::ImageDataset* images = nullptr;
  // Of augmentation. Other workers' images are other ones under the same
  // numbers if shares are for good.
  uint64_t seed = 0;
  // An epoch of the sampler is --concatenate_epochs repeats.
  oarlock::data::DistributedBatchSampler sampler;
};

// Whether the flags can go together, whatever the data. InvalidArgument: one
// sentence that names them.
absl::Status CheckDivision(const v1::ImageConfig& config);

// Opens what worker `rank` of `size` needs. InvalidArgument when the data are
// not of the kind that --partition deals out, or leave no step.
// REQUIRES: CheckDivision(config).
absl::StatusOr<TrainingImages> OpenTrainingImages(const v1::ImageConfig& config,
                                                  const ImageSource& source,
                                                  uint32_t rank, uint32_t size);

}  // namespace images

#endif  // OARLOCK_EXAMPLES_IMAGES_TRAINING_IMAGES_H_
