// MNIST with Fleet: PaddlePaddle's example in C++. The same program is one
// process, a rank of a collective job, and every role of a job with parameter
// servers:
//
//   train --data_dir DIR                                        one process
//   oarlock launch --nproc_per_node 2 train --data_dir DIR      two ranks
//   oarlock launch --server_num 2 --worker_num 2 train ...      with servers

#include "base/status_macros.h"
#include "examples/images/training.h"
#include "worker/data/images/idx.h"
#include "worker/data/images/synthetic_images.h"
#include "worker/models/image_networks.h"

namespace {

absl::StatusOr<images::ImageData> Open(const images::v1::ImageConfig& config) {
  images::ImageData data;
  if (!config.synthetic()) {
    OARLOCK_ASSIGN_OR_RETURN(
        data.train,
        oarlock::LoadIdx(config.data_dir(), oarlock::ImageSplit::kTrain));
    OARLOCK_ASSIGN_OR_RETURN(
        data.test,
        oarlock::LoadIdx(config.data_dir(), oarlock::ImageSplit::kTest));
    return data;
  }
  oarlock::SyntheticImagesOptions options;
  options.seed = config.seed();
  OARLOCK_ASSIGN_OR_RETURN(data.train, oarlock::NewSyntheticImages(options));
  options.split = oarlock::ImageSplit::kTest;
  options.num_examples /= 4;
  OARLOCK_ASSIGN_OR_RETURN(data.test, oarlock::NewSyntheticImages(options));
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
       .examples = "  train --data_dir mnist\n"
                   "  oarlock launch --nproc_per_node 2 train --data_dir mnist\n"
                   "  oarlock launch --server_num 2 --worker_num 2 train "
                   "--data_dir mnist\n"},
      {.name = "mnist",
       .open = Open,
       .network = [](const images::ImageData&)
           -> absl::StatusOr<std::unique_ptr<oarlock::Network>> {
         return oarlock::NewMnistNetwork();
       }},
      defaults, argc, argv);
}
