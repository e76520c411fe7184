#include "examples/images/training_images.h"

#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "base/random.h"
#include "base/status_macros.h"
#include "data/images/image_subset.h"

namespace images {
namespace {

using oarlock::data::DistributedBatchSampler;
using oarlock::data::SampleRule;
using oarlock::data::TailRule;
using oarlock::data::UnevenRule;

// Values of --partition.
constexpr char kImages[] = "images";
constexpr char kImageFiles[] = "image_files";
constexpr char kDataFiles[] = "data_files";

TailRule TailOf(const v1::ImageConfig& config) {
  if (config.tail() == "pad") return TailRule::kPad;
  if (config.tail() == "drop_uneven") return TailRule::kDropUneven;
  return TailRule::kDropShort;
}

TrainShare ShareOf(const v1::ImageConfig& config, uint32_t rank,
                   uint32_t size) {
  return {.rank = rank,
          .size = size,
          .uneven = TailOf(config) == TailRule::kPad ? UnevenRule::kPad
                                                     : UnevenRule::kDrop};
}

// `source` as --partition says.
absl::StatusOr<ImageData> Open(const v1::ImageConfig& config,
                               const ImageSource& source,
                               const TrainShare& share) {
  if (config.partition() != kDataFiles) return source.open(config);
  if (source.open_share != nullptr) return source.open_share(config, share);
  return absl::InvalidArgumentError(absl::StrCat(
      "--partition is data_files, which deals out files of many images; '",
      config.data_dir(), "' has none; legal here are images and image_files"));
}

absl::StatusOr<std::unique_ptr<oarlock::data::ImageDataset>> OwnFiles(
    const v1::ImageConfig& config, const ImageData& data,
    const TrainShare& share) {
  if (!data.is_file_list) {
    return absl::InvalidArgumentError(absl::StrCat(
        "--partition is image_files, which deals out files of one image each; "
        "'",
        config.data_dir(),
        "' has files of many; legal for them are "
        "images and data_files"));
  }
  OARLOCK_ASSIGN_OR_RETURN(
      const std::vector<size_t> files,
      oarlock::data::FilesOfRank(data.train->size(), share.rank, share.size,
                                 share.uneven));
  return std::make_unique<oarlock::data::ImageSubset>(
      data.train.get(), std::vector<uint64_t>(files.begin(), files.end()));
}

}  // namespace

absl::Status CheckDivision(const v1::ImageConfig& config) {
  if (config.partition() != kImages &&
      config.sampling() != "without_replacement") {
    return absl::InvalidArgumentError(absl::StrCat(
        "--sampling is ", config.sampling(), " and --partition ",
        config.partition(),
        ", of which a worker has its own share only; "
        "legal with it is without_replacement, or --partition images"));
  }
  if (config.partition() != kImages && config.synthetic()) {
    return absl::InvalidArgumentError(
        absl::StrCat("--partition is ", config.partition(),
                     ", but --synthetic images are "
                     "in no files; legal is images"));
  }
  if (config.epochs() % config.concatenate_epochs() != 0) {
    return absl::InvalidArgumentError(absl::StrCat(
        "--concatenate_epochs is ", config.concatenate_epochs(),
        " and --epochs ", config.epochs(),
        "; legal is a number that divides it, such as ", config.epochs()));
  }
  return absl::OkStatus();
}

absl::StatusOr<TrainingImages> OpenTrainingImages(const v1::ImageConfig& config,
                                                  const ImageSource& source,
                                                  uint32_t rank,
                                                  uint32_t size) {
  const TrainShare share = ShareOf(config, rank, size);
  OARLOCK_ASSIGN_OR_RETURN(ImageData data, Open(config, source, share));
  std::unique_ptr<oarlock::data::ImageDataset> own_files;
  if (config.partition() == kImageFiles) {
    OARLOCK_ASSIGN_OR_RETURN(own_files, OwnFiles(config, data, share));
  }
  const oarlock::data::ImageDataset* const images =
      own_files != nullptr ? own_files.get() : data.train.get();
  oarlock::data::SamplerOptions options;
  options.num_examples = images->size();
  options.batch_size = config.batch_size();
  options.batches_per_update = config.accumulate_steps();
  options.seed = config.seed();
  options.shuffle = true;
  options.tail = TailOf(config);
  options.num_repeats = config.concatenate_epochs();
  if (config.partition() == kImages) {
    options.rank = rank;
    options.size = size;
    if (config.sampling() == "with_replacement") {
      options.rule = SampleRule::kOwn;
    }
  } else if (size > 1) {
    // Nobody shares this order.
    options.seed = oarlock::DeriveSeed(config.seed(), rank);
  }
  OARLOCK_ASSIGN_OR_RETURN(DistributedBatchSampler sampler,
                           DistributedBatchSampler::Create(options));
  if (sampler.num_batches() == 0) {
    return absl::InvalidArgumentError(absl::StrCat(
        "the ", images->size() * config.concatenate_epochs(),
        " training images of an epoch make no update of ", config.batch_size(),
        " images, ", config.accumulate_steps(), " times, on each of ", size,
        " workers; legal is a lower --batch_size or "
        "--accumulate_steps, or --tail pad"));
  }
  return TrainingImages{.data = std::move(data),
                        .own_files = std::move(own_files),
                        .images = images,
                        .seed = options.seed,
                        .sampler = std::move(sampler)};
}

}  // namespace images
