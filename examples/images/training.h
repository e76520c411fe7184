// Trains a network on images: the five steps of PaddlePaddle's document on
// data-parallel training, for a process alone, the ranks of a collective job,
// and workers with parameter servers.

#ifndef OARLOCK_EXAMPLES_IMAGES_TRAINING_H_
#define OARLOCK_EXAMPLES_IMAGES_TRAINING_H_

#include <functional>
#include <memory>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "base/clock.h"
#include "data/images/image_transform.h"
#include "examples/images/args.h"
#include "examples/images/training_images.h"
#include "nn/network.h"

namespace images {

struct Experiment {
  std::string name;
  Args args = {};
  ImageSource source;
  std::function<absl::StatusOr<std::unique_ptr<oarlock::nn::Network>>(
      const ImageData& data)>
      network;
  // What --augment does.
  oarlock::data::Augmentation augmentation = {};
  oarlock::Clocks clocks = {};
};

// A server serves until the job is over; a worker trains and evaluates epoch
// after epoch. The first worker prints a line for each and writes
// <log_dir>/summary.json.
absl::Status Run(const Experiment& experiment);

// main of an example. Exit code 2 for a command line that cannot be followed,
// as with data of another kind than it says, 1 for failures.
int Main(const oarlock::flags::CommandSyntax& syntax, Experiment experiment,
         const v1::ImageConfig& defaults, int argc, char** argv);
// The same with a command line that has been parsed.
int Main(const oarlock::flags::CommandSyntax& syntax, Experiment experiment,
         absl::StatusOr<Args> args);

}  // namespace images

#endif  // OARLOCK_EXAMPLES_IMAGES_TRAINING_H_
