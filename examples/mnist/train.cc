// MNIST with Fleet: PaddlePaddle's example in C++. The same program is one
// process, a rank of a collective job, and every role of a job with parameter
// servers:
//
//   train --data_dir DIR                                        one process
//   oarlock launch --nproc_per_node 2 train --data_dir DIR      two ranks
//   oarlock launch --server_num 2 --worker_num 2 train ...      with servers

#include <optional>
#include <string>

#include "base/status_macros.h"
#include "data/images/idx.h"
#include "examples/images/image_sources.h"
#include "examples/images/training.h"
#include "models/image_networks.h"

namespace {

constexpr oarlock::data::ImageShape kShape = {
    .height = 28, .width = 28, .channels = 1};

absl::StatusOr<images::ImageData> Load(
    const std::string& folder, const std::optional<images::TrainShare>& share) {
  using oarlock::data::ImageSplit;
  images::ImageData data;
  if (share.has_value()) {
    OARLOCK_ASSIGN_OR_RETURN(
        data.train,
        oarlock::data::LoadIdxShare(folder, ImageSplit::kTrain, share->rank,
                                    share->size, share->uneven));
  } else {
    OARLOCK_ASSIGN_OR_RETURN(
        data.train, oarlock::data::LoadIdx(folder, ImageSplit::kTrain));
  }
  OARLOCK_ASSIGN_OR_RETURN(data.test,
                           oarlock::data::LoadIdx(folder, ImageSplit::kTest));
  return data;
}

}  // namespace

int main(int argc, char** argv) {
  images::v1::ImageConfig defaults;
  defaults.set_data_dir("mnist");
  defaults.set_epochs(5);
  defaults.set_batch_size(64);
  defaults.set_learning_rate_schedule("cosine");
  return images::Main(
      {.name = "train",
       .description = "Trains a small convolutional network on MNIST.",
       .examples =
           "  train --data_dir mnist\n"
           "  oarlock launch --nproc_per_node 2 train --data_dir mnist\n"
           "  oarlock launch --server_num 2 --worker_num 2 train "
           "--data_dir mnist\n"},
      {.name = "mnist",
       .source = images::SourceOf(kShape, Load),
       .network = [](const images::ImageData&)
           -> absl::StatusOr<std::unique_ptr<oarlock::nn::Network>> {
         return oarlock::models::NewMnistNetwork();
       },
       .augmentation = {.padding = 2}},
      defaults, argc, argv);
}
