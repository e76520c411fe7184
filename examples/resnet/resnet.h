// The parts of the ResNet example: which images it finds, and what it makes of
// its flags.

#ifndef OARLOCK_EXAMPLES_RESNET_RESNET_H_
#define OARLOCK_EXAMPLES_RESNET_RESNET_H_

#include <optional>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "data/images/image_transform.h"
#include "examples/images/args.h"
#include "examples/images/training.h"
#include "examples/images/training_images.h"
#include "examples/resnet/resnet_config.pb.h"
#include "flags/command_line.h"

namespace images {

oarlock::flags::CommandSyntax ResNetSyntax();

struct ResNetArgs {
  Args args = {};
  v1::ResNetConfig network = {};
};

// Flags, a file of them, and the environment. InvalidArgument: one sentence.
absl::StatusOr<ResNetArgs> ParseResNetArgs(int argc, char** argv);

// Synthetic images, or those that --data_dir has in one of these layouts, the
// first that fits:
//
//   train_list.txt, val_list.txt or test_list.txt   lines "PATH LABEL"
//   train/CLASS/FILE, val/ or test/ likewise        .jpg, .jpeg and .png
//   data_batch_N.bin, test_batch.bin                CIFAR-10
//
// NotFound when there is none of them: one line with all of them and where to
// get images. Else the errors of ImageFolder and LoadCifar; InvalidArgument for
// CIFAR-10 at another size than its own. With a share no more of the training
// images than that; InvalidArgument where each image is a file.
absl::StatusOr<ImageData> OpenResNetImages(
    const v1::ImageConfig& config, const v1::ResNetConfig& network,
    const std::optional<TrainShare>& share = std::nullopt);

// For images of at most kMaxSmallResNetImage that of He et al., section 4.2: a
// border of four pixels, the image's size cut out of it, mirrored. For larger
// ones a random part of the file, mirrored (Szegedy et al., 2015).
oarlock::data::Augmentation ResNetAugmentation(const v1::ResNetConfig& network);

// Its args are the caller's to fill in.
Experiment ResNetExperiment(const v1::ResNetConfig& network);

}  // namespace images

#endif  // OARLOCK_EXAMPLES_RESNET_RESNET_H_
