// CIFAR-10 with Fleet: the network of PaddlePaddle's document, in C++. The same
// program is one process, a rank of a collective job, and every role of a job
// with parameter servers:
//
//   train --data_dir DIR                                        one process
//   oarlock launch --nproc_per_node 2 train --data_dir DIR      two ranks
//   oarlock launch --server_num 2 --worker_num 2 train ...      with servers

#include <optional>
#include <utility>

#include "absl/strings/str_cat.h"
#include "base/status_macros.h"
#include "examples/images/folder_images.h"
#include "examples/images/training.h"
#include "worker/data/images/cifar.h"
#include "worker/data/images/synthetic_images.h"
#include "worker/models/image_networks.h"

namespace {

// The whole training images, or a share of them.
absl::StatusOr<images::ImageData> Load(
    const images::v1::ImageConfig& config,
    const std::optional<images::TrainShare>& share) {
  images::ImageData data;
  if (share.has_value()) {
    OARLOCK_ASSIGN_OR_RETURN(
        oarlock::CifarShare own,
        oarlock::LoadCifarShare(config.data_dir(), oarlock::ImageSplit::kTrain,
                                oarlock::CifarKind::kCifar10, share->rank,
                                share->size, share->uneven));
    data.train = std::move(own.images);
  } else {
    OARLOCK_ASSIGN_OR_RETURN(
        data.train,
        oarlock::LoadCifar(config.data_dir(), oarlock::ImageSplit::kTrain));
  }
  OARLOCK_ASSIGN_OR_RETURN(
      data.test,
      oarlock::LoadCifar(config.data_dir(), oarlock::ImageSplit::kTest));
  return data;
}

absl::StatusOr<images::ImageData> Draw(const images::v1::ImageConfig& config) {
  images::ImageData data;
  oarlock::SyntheticImagesOptions options;
  options.shape = oarlock::kCifarShape;
  options.seed = config.seed();
  OARLOCK_ASSIGN_OR_RETURN(data.train, oarlock::NewSyntheticImages(options));
  options.split = oarlock::ImageSplit::kTest;
  options.num_examples /= 4;
  OARLOCK_ASSIGN_OR_RETURN(data.test, oarlock::NewSyntheticImages(options));
  return data;
}

absl::StatusOr<images::ImageData> Open(const images::v1::ImageConfig& config) {
  if (config.synthetic()) return Draw(config);
  if (images::IsFileList(config.data_dir())) {
    return images::OpenFileList(config.data_dir(), /*side=*/32,
                                /*channels=*/3);
  }
  return Load(config, std::nullopt);
}

absl::StatusOr<images::ImageData> OpenShare(
    const images::v1::ImageConfig& config, const images::TrainShare& share) {
  if (images::IsFileList(config.data_dir())) {
    return absl::InvalidArgumentError(absl::StrCat(
        "--partition is data_files, which deals out files of many images; '",
        config.data_dir(),
        "' has a file for each; legal for them are images and image_files"));
  }
  return Load(config, share);
}

}  // namespace

int main(int argc, char** argv) {
  images::v1::ImageConfig defaults;
  defaults.set_data_dir("cifar10");
  defaults.set_epochs(10);
  defaults.set_batch_size(32);
  return images::Main(
      {.name = "train",
       .description = "Trains the document's network on CIFAR-10.",
       .examples =
           "  train --data_dir cifar10\n"
           "  oarlock launch --nproc_per_node 2 train --data_dir cifar10\n"
           "  oarlock launch --server_num 2 --worker_num 2 train "
           "--data_dir cifar10\n"},
      {.name = "cifar10",
       .open = Open,
       .network = [](const images::ImageData&)
           -> absl::StatusOr<std::unique_ptr<oarlock::Network>> {
         return oarlock::NewCifar10Network();
       },
       .augmentation = {.padding = 4, .flip = true},
       .open_share = OpenShare},
      defaults, argc, argv);
}
