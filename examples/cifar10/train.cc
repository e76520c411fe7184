// CIFAR-10 with Fleet: the network of PaddlePaddle's document, in C++. The same
// program is one process, a rank of a collective job, and every role of a job
// with parameter servers:
//
//   train --data_dir DIR                                        one process
//   oarlock launch --nproc_per_node 2 train --data_dir DIR      two ranks
//   oarlock launch --server_num 2 --worker_num 2 train ...      with servers

#include "data/images/cifar.h"
#include "examples/images/image_sources.h"
#include "examples/images/training.h"
#include "models/image_networks.h"

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
       .source =
           images::SourceOf(oarlock::data::kCifarShape, images::LoadCifar10),
       .network = [](const images::ImageData&)
           -> absl::StatusOr<std::unique_ptr<oarlock::nn::Network>> {
         return oarlock::models::NewCifar10Network();
       },
       .augmentation = {.padding = 4, .flip = true}},
      defaults, argc, argv);
}
