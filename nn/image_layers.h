// The kinds of nodes that are about images, [height, width, channels]. Shapes
// are those of one example.

#ifndef OARLOCK_NN_IMAGE_LAYERS_H_
#define OARLOCK_NN_IMAGE_LAYERS_H_

#include <cstddef>
#include <memory>
#include <vector>

#include "nn/layer.h"
#include "nn/operation.h"
#include "nn/parameter.h"
#include "nn/tensor.h"
#include "nn/window.h"

namespace oarlock::nn {

struct ImageInputOptions {
  Shape shape = {};  // [height, width, channels], at most kMaxByteChannels
  // Of bytes / 255, channel by channel, or one for all, or none for 0 and 1.
  std::vector<float> mean = {};
  std::vector<float> deviation = {};  // not 0
};
// (byte / 255 - mean) / deviation of the step's images. No inputs.
//
// A layer, and no business of who loads the data: so images stay bytes, a
// fourth of the floats, up to where they are computed with (a GPU, too), and a
// network cannot be evaluated on images scaled in another way than it was
// trained on. Floats that are something else come in by NewDenseInput.
std::unique_ptr<Layer> NewImageInput(const ImageInputOptions& options);

struct Conv2dOptions {
  size_t out_channels = 0;
  Window window = {};
  bool bias = true;
  Activation activation = Activation::kNone;
  WeightStart weight_start = WeightStart::kHeNormal;
};
// activation(convolution of one image + bias); parameters weight [height,
// width, in, out] of the kernel, and bias [out_channels], which starts at 0.
std::unique_ptr<Layer> NewConv2d(const Conv2dOptions& options);

struct MaxPool2dOptions {
  Window window = {};  // at most kMaxPoolArea elements
  // ReLU before pooling and behind it are the same; here it costs less.
  Activation activation = Activation::kNone;
};
// activation(the largest pixel under the window), channel by channel. The
// window's padding, which never counts, is smaller than its kernel.
std::unique_ptr<Layer> NewMaxPool2d(const MaxPool2dOptions& options);

// The mean of the pixels under the window; padding does not count, and is
// smaller than the kernel.
std::unique_ptr<Layer> NewAveragePool2d(const Window& window);

// [channels]: the mean of all pixels of one image.
std::unique_ptr<Layer> NewGlobalAveragePool();

struct BatchNorm2dOptions {
  // Paddle's defaults. Running value = momentum * running value +
  // (1 - momentum) * the batch's.
  float momentum = 0.9f;
  float epsilon = 1e-5f;
  Activation activation = Activation::kNone;
  // How the scale starts; 0 in the last batch norm of a residual block makes
  // the block start as the identity (Goyal et al., Accurate, Large Minibatch
  // SGD, 2017).
  float scale_start = 1;
};
// activation(batch norm of the first input, [height, width, channels] or
// [channels] + the second input, of the same shape, if there is one: a residual
// block's other branch). Parameters scale and shift [channels], which start at
// scale_start and 0; statistics mean and variance [channels], which start at 0
// and 1. Learns in training only.
std::unique_ptr<Layer> NewBatchNorm2d(const BatchNorm2dOptions& options);

}  // namespace oarlock::nn

#endif  // OARLOCK_NN_IMAGE_LAYERS_H_
