// The part of MathBackend for images. The rules of math_backend.h for arrays,
// memory and threads apply here too.
//
// Images are [images, height, width, channels], the channels innermost, so that
// bias, batch norm and pooling run along contiguous floats. A flat image is the
// input of a linear layer without a copy.

#ifndef OARLOCK_NN_IMAGE_OPERATIONS_H_
#define OARLOCK_NN_IMAGE_OPERATIONS_H_

#include <array>
#include <cstddef>
#include <cstdint>

#include "nn/operation.h"
#include "nn/window.h"

namespace oarlock::nn {

// ---- Convolution ----

struct ConvolutionShape {
  Extent image;  // of the input
  size_t in_channels = 0;
  size_t out_channels = 0;
  // Must have at least one position on the image.
  Window window;

  // Floats of an input image, of an output image, and of the weight.
  size_t input_size() const { return image.area() * in_channels; }
  size_t output_size() const {
    return NumPositions(image, window).area() * out_channels;
  }
  size_t weight_size() const {
    return window.kernel.area() * in_channels * out_channels;
  }
  friend bool operator==(const ConvolutionShape&,
                         const ConvolutionShape&) = default;
};

// y[n, i, j, o] = activation(bias[o] + the sum over k, l and c of
// weight[k, l, c, o] * x[n, the pixel under element (k, l) at (i, j), c]),
// where x outside the image is 0: Paddle's conv2d, a cross-correlation
// (Dumoulin and Visin, A guide to convolution arithmetic, 2016).
struct ConvolutionArgs {
  size_t images = 0;
  ConvolutionShape shape;
  Activation activation = Activation::kNone;
  const float* x = nullptr;
  const float* weight = nullptr;  // [height, width, in, out]
  // [out_channels], or null; with null there is no activation either.
  const float* bias = nullptr;
  // ConvolutionScratch floats. ConvolutionBackward needs the contents that
  // Convolution has left there.
  float* scratch = nullptr;
};

// The input and the outputs of a convolution's gradients.
struct ConvolutionGradients {
  float* dy = nullptr;  // gradient by y; may be overwritten
  Write parameter_write = Write::kOverwrite;
  float* dweight = nullptr;
  float* dbias = nullptr;  // null if there is no bias
  float* dx = nullptr;     // null: not needed
  Write dx_write = Write::kOverwrite;
};

// ---- Pooling ----

// Images [images, image, channels] under a window whose padding is smaller than
// its kernel, so that each position has a pixel. Elements outside the image are
// ignored.
struct PoolingShape {
  size_t images = 0;
  Extent image;
  size_t channels = 0;
  Window window;

  size_t output_size() const {
    return images * NumPositions(image, window).area() * channels;
  }
};

// The largest kernel of MaxPool: an element's number is a byte.
inline constexpr size_t kMaxPoolArea = 255;
// No element was chosen: the ReLU made the result 0.
inline constexpr uint8_t kNoneChosen = 255;

// ---- Batch norm ----

// Column by column, y = activation((x - mean) / sqrt(variance + epsilon) *
// scale + shift + residual) (Ioffe and Szegedy, Batch Normalization, 2015).
struct BatchNormArgs {
  size_t rows = 0;  // pixels of all images
  size_t channels = 0;
  float epsilon = 0;
  // Running value = momentum * running value + (1 - momentum) * the batch's.
  float momentum = 0;
  Activation activation = Activation::kNone;
  const float* x = nullptr;         // [rows, channels]
  const float* scale = nullptr;     // [channels], gamma
  const float* shift = nullptr;     // [channels], beta
  const float* residual = nullptr;  // [rows, channels], or null for none
  float* running_mean = nullptr;    // [channels]
  float* running_variance = nullptr;
  // [2, channels]. BatchNormBackward needs the contents that BatchNormTraining
  // has left.
  float* scratch = nullptr;
};

// dresidual may be the same array as dx, if x is the residual: for each number,
// dx is written first.
struct BatchNormGradients {
  const float* dy = nullptr;
  Write parameter_write = Write::kOverwrite;
  float* dscale = nullptr;
  float* dshift = nullptr;
  float* dx = nullptr;  // null: not needed
  Write dx_write = Write::kOverwrite;
  float* dresidual = nullptr;  // null: not needed
  Write dresidual_write = Write::kOverwrite;
};

// ---- Bytes ----

inline constexpr size_t kMaxByteChannels = 4;

// The conversion of a channel's bytes: byte * factor + addend.
struct ByteScale {
  std::array<float, kMaxByteChannels> factor{};
  std::array<float, kMaxByteChannels> addend{};
};

class ImageOperations {
 public:
  virtual ~ImageOperations() = default;

  // Floats of scratch for a convolution of up to max_images.
  virtual size_t ConvolutionScratch(size_t max_images,
                                    const ConvolutionShape& shape) const {
    return 0;
  }
  // y is overwritten.
  virtual void Convolution(const ConvolutionArgs& args, float* y) = 0;
  // REQUIRES: Convolution was called before with the same arguments, and their
  // arrays have not changed. y is not read without an activation.
  virtual void ConvolutionBackward(const ConvolutionArgs& args, const float* y,
                                   const ConvolutionGradients& gradients) = 0;

  // y = activation(the largest pixel under the window), channel by channel;
  // chosen = the number, row by row, of the window's element with this pixel.
  // It is the first of equal pixels, or kNoneChosen if the activation made y 0.
  // A ReLU and a maximum commute, so this also computes a ReLU before the
  // pooling.
  virtual void MaxPool(const PoolingShape& shape, Activation activation,
                       const float* x, float* y, uint8_t* chosen) = 0;
  // dx = the sum of dy over the positions that have chosen the pixel.
  virtual void MaxPoolBackward(const PoolingShape& shape, const float* dy,
                               const uint8_t* chosen, Write write,
                               float* dx) = 0;
  // y = the mean of the pixels under the window (Paddle's exclusive=True).
  virtual void AveragePool(const PoolingShape& shape, const float* x,
                           float* y) = 0;
  virtual void AveragePoolBackward(const PoolingShape& shape, const float* dy,
                                   Write write, float* dx) = 0;

  // Uses mean and variance of the batch (the variance divided by the rows). The
  // running mean and variance are moved towards them. For this the batch's
  // variance is multiplied by rows / (rows - 1), as in the paper, cuDNN and
  // PyTorch (by 1 for one row). Without rows they do not change.
  virtual void BatchNormTraining(const BatchNormArgs& args, float* y) = 0;
  // Uses the running mean and variance and does not change them. Does not read
  // momentum and scratch.
  virtual void BatchNormInference(const BatchNormArgs& args, float* y) = 0;
  // REQUIRES: BatchNormTraining was called before with the same arguments. With
  // g = dy where the activation did not make y 0, else 0, and z = (x - mean) /
  // sqrt(variance + epsilon): dshift = sum g, dscale = sum g z, dresidual = g,
  // dx = scale / sqrt(variance + epsilon) * (g - dshift/rows - z dscale/rows).
  virtual void BatchNormBackward(const BatchNormArgs& args, const float* y,
                                 const BatchNormGradients& gradients) = 0;

  // y[i, c] = bytes[i, c] * factor[c] + addend[c], for [pixels, channels] of
  // 1 to kMaxByteChannels channels.
  virtual void ScaleBytes(size_t pixels, size_t channels, const uint8_t* bytes,
                          const ByteScale& scale, float* y) = 0;
};

}  // namespace oarlock::nn

#endif  // OARLOCK_NN_IMAGE_OPERATIONS_H_
