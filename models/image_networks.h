// Networks over images: compositions of layers. Their images are bytes,
// [height, width, channels], in StepInput::images; their predictions are the
// probabilities of the classes.
//
// Where a network has a ReLU before a max pooling, the ReLU is computed in the
// pooling: the two commute, and after the pooling it takes a fourth of the
// work.

#ifndef OARLOCK_MODELS_IMAGE_NETWORKS_H_
#define OARLOCK_MODELS_IMAGE_NETWORKS_H_

#include <cstddef>
#include <memory>

#include "absl/status/statusor.h"
#include "nn/network.h"

namespace oarlock::models {

// A small LeNet of ReLUs for images of 28 x 28 x 1 and ten classes: "conv1" 32
// of 5x5, pool 2, "conv2" 64 of 5x5, pool 2, "fc1" 512, "fc2" 10; no padding.
// 582,026 parameters. Bytes become byte / 127.5 - 1, as in Paddle's reader.
std::unique_ptr<nn::Network> NewMnistNetwork();

// The network of PaddlePaddle's CIFAR-10 document, for images of 32 x 32 x 3
// and ten classes: "conv1" 32 of 3x3, pool 2, "conv2" 64 of 3x3, pool 2,
// "conv3" 64 of 3x3, "linear1" 64, "linear2" 10, ReLUs between; no padding.
// 122,570 parameters, which start as in Paddle: He normal, Xavier uniform,
// biases 0. Bytes become byte / 255, as ToTensor does.
std::unique_ptr<nn::Network> NewCifar10Network();

// The largest side of images for which a ResNet begins with a 3x3 convolution.
inline constexpr size_t kMaxSmallResNetImage = 64;

struct ResNetOptions {
  size_t depth = 18;  // 18, 34, 50, 101 or 152
  // Size of the images, which have three channels.
  size_t height = 224;
  size_t width = 224;
  size_t num_classes = 1000;  // 2 or more
  // Whether the last scale of each block starts at 0, so that the block starts
  // as the identity.
  bool zero_last_scale = false;
};
// He et al., Deep Residual Learning for Image Recognition, 2015: basic blocks
// for 18 and 34 layers, bottlenecks (stride in the 3x3) for more, projections
// where shapes change, convolutions without bias. For images of at most 64 x
// 64, the network begins with a 3x3 convolution as in the paper's section 4.2.
// For larger images, it begins with a 7x7 convolution of stride 2 and a max
// pooling. Bytes become (byte / 255 - mean) / deviation of ImageNet's channels.
//
// InvalidArgument if an option is out of range.
absl::StatusOr<std::unique_ptr<nn::Network>> NewResNet(
    const ResNetOptions& options);

}  // namespace oarlock::models

#endif  // OARLOCK_MODELS_IMAGE_NETWORKS_H_
