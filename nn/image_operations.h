// The part of MathBackend that is about images. What math_backend.h says about
// arrays, memory and threads holds here too.
//
// Images are [images, height, width, channels], the channels innermost, so
// that bias, batch norm and pooling run along contiguous floats and a flat
// image is the input of a linear layer as it is.

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
  // Has a position on the image.
  Window window;

  // Floats of an image, of one that comes out, and of the weight.
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
  // [out_channels], or null: then there is no activation either.
  const float* bias = nullptr;
  // ConvolutionScratch floats. ConvolutionBackward gets what Convolution has
  // left there.
  float* scratch = nullptr;
};

// Where the gradients of a convolution come from and go.
struct ConvolutionGradients {
  float* dy = nullptr;  // by y; may be overwritten
  Write parameter_write = Write::kOverwrite;
  float* dweight = nullptr;
  float* dbias = nullptr;  // null if there is no bias
  float* dx = nullptr;     // null: not wanted
  Write dx_write = Write::kOverwrite;
};

// ---- Pooling ----

// Images [images, image, channels] under a window whose padding is smaller
// than its kernel, so that each position has a pixel. What lies outside the
// image does not take part.
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
// No element: a ReLU let nothing pass.
inline constexpr uint8_t kNoneChosen = 255;

// ---- Batch norm ----

// Column by column y = activation((x - mean) / sqrt(variance + epsilon) * scale
// + shift + residual) (Ioffe and Szegedy, Batch Normalization, 2015).
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
  // [2, channels]. BatchNormBackward gets what BatchNormTraining has left.
  float* scratch = nullptr;
};

// dresidual may be dx, if x is the residual: dx is written first, number by
// number.
struct BatchNormGradients {
  const float* dy = nullptr;
  Write parameter_write = Write::kOverwrite;
  float* dscale = nullptr;
  float* dshift = nullptr;
  float* dx = nullptr;  // null: not wanted
  Write dx_write = Write::kOverwrite;
  float* dresidual = nullptr;  // null: not wanted
  Write dresidual_write = Write::kOverwrite;
};

// ---- Bytes ----

inline constexpr size_t kMaxByteChannels = 4;

// What becomes of a channel's bytes.
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
  // After Convolution of the same arguments, whose arrays still hold what they
  // held. y is not read without an activation.
  virtual void ConvolutionBackward(const ConvolutionArgs& args, const float* y,
                                   const ConvolutionGradients& gradients) = 0;

  // y = activation(the largest pixel under the window), channel by channel;
  // chosen = the number, row by row, of the window's element that it came
  // from, of equal ones the first, or kNoneChosen if the activation made it 0.
  // Since a ReLU and a maximum commute, ReLU and pooling in one are this one.
  virtual void MaxPool(const PoolingShape& shape, Activation activation,
                       const float* x, float* y, uint8_t* chosen) = 0;
  // dx = the sum of dy of the positions that have chosen the pixel.
  virtual void MaxPoolBackward(const PoolingShape& shape, const float* dy,
                               const uint8_t* chosen, Write write,
                               float* dx) = 0;
  // y = the mean of the pixels under the window (Paddle's exclusive=True).
  virtual void AveragePool(const PoolingShape& shape, const float* x,
                           float* y) = 0;
  virtual void AveragePoolBackward(const PoolingShape& shape, const float* dy,
                                   Write write, float* dx) = 0;

  // Mean and variance are the batch's (the variance divided by the rows), and
  // running ones are moved towards them, the variance times rows / (rows - 1),
  // as in the paper, cuDNN and PyTorch (times 1 for one row). Without rows
  // nothing is moved.
  virtual void BatchNormTraining(const BatchNormArgs& args, float* y) = 0;
  // Mean and variance are the running ones, which are only read; momentum and
  // scratch are not.
  virtual void BatchNormInference(const BatchNormArgs& args, float* y) = 0;
  // After BatchNormTraining of the same arguments. With g = dy where the
  // activation let pass, z = (x - mean) / sqrt(variance + epsilon):
  // dshift = sum g, dscale = sum g z, dresidual = g,
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
