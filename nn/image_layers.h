// The kinds of nodes for images, [height, width, channels]. Shapes are shapes
// of one example.

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
  // Mean and deviation of bytes / 255: one value per channel, or one value for
  // all channels. Empty: mean 0 and deviation 1.
  std::vector<float> mean = {};
  std::vector<float> deviation = {};  // not 0
};
// (byte / 255 - mean) / deviation of the step's images. No inputs.
//
// The conversion is a layer, not a part of loading the data. So images stay
// bytes, a fourth of the size of floats, until they are used, even on a GPU.
// And a network cannot be evaluated on images with another scale than in
// training. For images of floats, use NewDenseInput.
std::unique_ptr<Layer> NewImageInput(const ImageInputOptions& options);

struct Conv2dOptions {
  size_t out_channels = 0;
  Window window = {};
  bool bias = true;
  Activation activation = Activation::kNone;
  WeightStart weight_start = WeightStart::kHeNormal;
};
// activation(convolution of one image + bias). Parameters: the kernel's weight
// [height, width, in, out], and bias [out_channels], which starts at 0.
std::unique_ptr<Layer> NewConv2d(const Conv2dOptions& options);

struct MaxPool2dOptions {
  Window window = {};  // at most kMaxPoolArea elements
  // A ReLU before the pooling gives the same result as one after it; here it
  // costs less.
  Activation activation = Activation::kNone;
};
// activation(the largest pixel under the window), channel by channel. The
// window's padding is never chosen and is smaller than the kernel.
std::unique_ptr<Layer> NewMaxPool2d(const MaxPool2dOptions& options);

// The mean of the pixels under the window. Padding is not part of the mean and
// is smaller than the kernel.
std::unique_ptr<Layer> NewAveragePool2d(const Window& window);

// [channels]: the mean of all pixels of one image.
std::unique_ptr<Layer> NewGlobalAveragePool();

struct BatchNorm2dOptions {
  // Paddle's defaults. Running value = momentum * running value +
  // (1 - momentum) * the batch's.
  float momentum = 0.9f;
  float epsilon = 1e-5f;
  Activation activation = Activation::kNone;
  // Start value of the scale. With 0 in its last batch norm, a residual block
  // starts as the identity (Goyal et al., Accurate, Large Minibatch SGD, 2017).
  float scale_start = 1;
};
// activation(batch norm of the first input + the second input, if there is
// one). The first input is [height, width, channels] or [channels]. The second,
// of the same shape, is the other branch of a residual block. Parameters: scale
// and shift [channels], which start at scale_start and 0. Statistics: mean and
// variance [channels], which start at 0 and 1 and change only in training.
std::unique_ptr<Layer> NewBatchNorm2d(const BatchNorm2dOptions& options);

}  // namespace oarlock::nn

#endif  // OARLOCK_NN_IMAGE_LAYERS_H_
