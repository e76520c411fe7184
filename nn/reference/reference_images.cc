#include "nn/reference/reference_images.h"

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <vector>

namespace oarlock::nn {
namespace {

void Put(Write write, double value, float* to) {
  *to = static_cast<float>(write == Write::kAdd ? *to + value : value);
}

void PutAll(Write write, const std::vector<double>& values, float* to) {
  for (size_t i = 0; i < values.size(); ++i) Put(write, values[i], &to[i]);
}

// An element of the window that covers a pixel of the image.
struct Touch {
  size_t output;   // number of the position: image, row, column
  size_t input;    // number of the pixel
  size_t element;  // number of the kernel's element
};

// Calls visit for each position and each of its elements that is inside the
// image, in this order.
template <typename Visit>
void ForEachTouch(size_t images, Extent image, const Window& window,
                  Visit visit) {
  const Extent out = NumPositions(image, window);
  const auto inside = [](size_t start, size_t element, size_t padding,
                         size_t size) {
    return start + element >= padding && start + element - padding < size;
  };
  for (size_t i = 0; i < images * out.area(); ++i) {
    const size_t row = i / out.width % out.height * window.stride.height;
    const size_t column = i % out.width * window.stride.width;
    for (size_t element = 0; element < window.kernel.area(); ++element) {
      const size_t k = element / window.kernel.width;
      const size_t l = element % window.kernel.width;
      if (!inside(row, k, window.padding.height, image.height) ||
          !inside(column, l, window.padding.width, image.width)) {
        continue;
      }
      const size_t y = row + k - window.padding.height;
      const size_t x = column + l - window.padding.width;
      visit(Touch{i, (i / out.area() * image.height + y) * image.width + x,
                  element});
    }
  }
}

double Activate(Activation activation, double value) {
  return activation == Activation::kRelu ? std::max(value, 0.0) : value;
}

bool Passes(Activation activation, const float* y, size_t i) {
  return activation == Activation::kNone || !(y[i] <= 0);
}

// For each position, the number of its elements inside the image.
std::vector<double> Counts(const PoolingShape& shape) {
  std::vector<double> counts(shape.output_size() /
                             std::max<size_t>(shape.channels, 1));
  ForEachTouch(shape.images, shape.image, shape.window,
               [&](const Touch& t) { counts[t.output] += 1; });
  return counts;
}

struct Moments {
  std::vector<double> mean, variance;
};

Moments MomentsOf(const BatchNormArgs& args) {
  const double rows = static_cast<double>(args.rows);
  Moments moments;
  moments.mean.resize(args.channels);
  moments.variance.resize(args.channels);
  for (size_t i = 0; i < args.rows * args.channels; ++i) {
    moments.mean[i % args.channels] += args.x[i] / rows;
  }
  for (size_t i = 0; i < args.rows * args.channels; ++i) {
    const size_t c = i % args.channels;
    const double d = args.x[i] - moments.mean[c];
    moments.variance[c] += d * d / rows;
  }
  return moments;
}

void Normalize(const BatchNormArgs& args, const Moments& moments, float* y) {
  for (size_t i = 0; i < args.rows * args.channels; ++i) {
    const size_t c = i % args.channels;
    const double z = (args.x[i] - moments.mean[c]) /
                     std::sqrt(moments.variance[c] + args.epsilon);
    const double residual = args.residual == nullptr ? 0 : args.residual[i];
    y[i] = static_cast<float>(Activate(
        args.activation, z * args.scale[c] + args.shift[c] + residual));
  }
}

}  // namespace

void ReferenceImages::Convolution(const ConvolutionArgs& args, float* y) {
  const size_t in = args.shape.in_channels, out = args.shape.out_channels;
  std::vector<double> sums(args.images * args.shape.output_size());
  for (size_t i = 0; i < sums.size(); ++i) {
    sums[i] = args.bias == nullptr ? 0 : args.bias[i % out];
  }
  ForEachTouch(args.images, args.shape.image, args.shape.window,
               [&](const Touch& t) {
                 for (size_t i = 0; i < in * out; ++i) {
                   sums[t.output * out + i % out] +=
                       double{args.x[t.input * in + i / out]} *
                       args.weight[t.element * in * out + i];
                 }
               });
  for (size_t i = 0; i < sums.size(); ++i) {
    y[i] = static_cast<float>(Activate(args.activation, sums[i]));
  }
}

void ReferenceImages::ConvolutionBackward(const ConvolutionArgs& args,
                                          const float* y,
                                          const ConvolutionGradients& g) {
  const size_t in = args.shape.in_channels, out = args.shape.out_channels;
  const size_t out_size = args.images * args.shape.output_size();
  std::vector<double> dbias(out), dweight(args.shape.weight_size());
  std::vector<double> dx(args.images * args.shape.input_size());
  for (size_t i = 0; i < out_size; ++i) {
    if (!Passes(args.activation, y, i)) g.dy[i] = 0;
    dbias[i % out] += g.dy[i];
  }
  ForEachTouch(args.images, args.shape.image, args.shape.window,
               [&](const Touch& t) {
                 for (size_t i = 0; i < in * out; ++i) {
                   const double dy = g.dy[t.output * out + i % out];
                   const size_t weight = t.element * in * out + i;
                   const size_t from = t.input * in + i / out;
                   dweight[weight] += dy * args.x[from];
                   dx[from] += dy * args.weight[weight];
                 }
               });
  PutAll(g.parameter_write, dweight, g.dweight);
  if (g.dbias != nullptr) PutAll(g.parameter_write, dbias, g.dbias);
  if (g.dx != nullptr) PutAll(g.dx_write, dx, g.dx);
}

void ReferenceImages::MaxPool(const PoolingShape& shape, Activation activation,
                              const float* x, float* y, uint8_t* chosen) {
  const size_t channels = shape.channels;
  std::fill_n(chosen, shape.output_size(), kNoneChosen);
  ForEachTouch(shape.images, shape.image, shape.window, [&](const Touch& t) {
    for (size_t c = 0; c < channels; ++c) {
      const size_t at = t.output * channels + c;
      const float value = x[t.input * channels + c];
      // NaN is the largest.
      if (chosen[at] != kNoneChosen && !(value > y[at]) && !std::isnan(value))
        continue;
      y[at] = value;
      chosen[at] = static_cast<uint8_t>(t.element);
    }
  });
  if (activation == Activation::kNone) return;
  for (size_t i = 0; i < shape.output_size(); ++i) {
    if (!(y[i] <= 0)) continue;
    y[i] = 0;
    chosen[i] = kNoneChosen;
  }
}

void ReferenceImages::MaxPoolBackward(const PoolingShape& shape,
                                      const float* dy, const uint8_t* chosen,
                                      Write write, float* dx) {
  const size_t channels = shape.channels;
  std::vector<double> sums(shape.images * shape.image.area() * channels);
  ForEachTouch(shape.images, shape.image, shape.window, [&](const Touch& t) {
    for (size_t c = 0; c < channels; ++c) {
      const size_t at = t.output * channels + c;
      if (chosen[at] == t.element) sums[t.input * channels + c] += dy[at];
    }
  });
  PutAll(write, sums, dx);
}

void ReferenceImages::AveragePool(const PoolingShape& shape, const float* x,
                                  float* y) {
  const size_t channels = shape.channels;
  const std::vector<double> counts = Counts(shape);
  std::vector<double> sums(shape.output_size());
  ForEachTouch(shape.images, shape.image, shape.window, [&](const Touch& t) {
    for (size_t c = 0; c < channels; ++c) {
      sums[t.output * channels + c] += x[t.input * channels + c];
    }
  });
  for (size_t i = 0; i < sums.size(); ++i) {
    y[i] = static_cast<float>(sums[i] / counts[i / channels]);
  }
}

void ReferenceImages::AveragePoolBackward(const PoolingShape& shape,
                                          const float* dy, Write write,
                                          float* dx) {
  const size_t channels = shape.channels;
  const std::vector<double> counts = Counts(shape);
  std::vector<double> sums(shape.images * shape.image.area() * channels);
  ForEachTouch(shape.images, shape.image, shape.window, [&](const Touch& t) {
    for (size_t c = 0; c < channels; ++c) {
      sums[t.input * channels + c] +=
          dy[t.output * channels + c] / counts[t.output];
    }
  });
  PutAll(write, sums, dx);
}

void ReferenceImages::BatchNormTraining(const BatchNormArgs& args, float* y) {
  if (args.rows == 0) return;
  const Moments moments = MomentsOf(args);
  const double rows = static_cast<double>(args.rows);
  const double unbiased = args.rows > 1 ? rows / (rows - 1) : 1;
  const auto move = [&](double value, float* running) {
    *running = static_cast<float>(args.momentum * *running +
                                  (1 - double{args.momentum}) * value);
  };
  for (size_t c = 0; c < args.channels; ++c) {
    move(moments.mean[c], &args.running_mean[c]);
    move(moments.variance[c] * unbiased, &args.running_variance[c]);
  }
  Normalize(args, moments, y);
}

void ReferenceImages::BatchNormInference(const BatchNormArgs& args, float* y) {
  Moments moments;
  moments.mean.assign(args.running_mean, args.running_mean + args.channels);
  moments.variance.assign(args.running_variance,
                          args.running_variance + args.channels);
  Normalize(args, moments, y);
}

void ReferenceImages::BatchNormBackward(const BatchNormArgs& args,
                                        const float* y,
                                        const BatchNormGradients& g) {
  const double rows = static_cast<double>(args.rows);
  const size_t size = args.rows * args.channels;
  const Moments moments = MomentsOf(args);
  std::vector<double> dshift(args.channels), dscale(args.channels);
  std::vector<double> dy(size), z(size), deviation(args.channels);
  for (size_t c = 0; c < args.channels; ++c) {
    deviation[c] = std::sqrt(moments.variance[c] + args.epsilon);
  }
  for (size_t i = 0; i < size; ++i) {
    const size_t c = i % args.channels;
    dy[i] = Passes(args.activation, y, i) ? g.dy[i] : 0;
    z[i] = (args.x[i] - moments.mean[c]) / deviation[c];
    dshift[c] += dy[i];
    dscale[c] += dy[i] * z[i];
  }
  for (size_t i = 0; i < size; ++i) {
    const size_t c = i % args.channels;
    if (g.dx != nullptr) {
      Put(g.dx_write,
          args.scale[c] / deviation[c] *
              (dy[i] - dshift[c] / rows - z[i] * dscale[c] / rows),
          &g.dx[i]);
    }
    if (g.dresidual != nullptr) Put(g.dresidual_write, dy[i], &g.dresidual[i]);
  }
  PutAll(g.parameter_write, dscale, g.dscale);
  PutAll(g.parameter_write, dshift, g.dshift);
}

void ReferenceImages::ScaleBytes(size_t pixels, size_t channels,
                                 const uint8_t* bytes, const ByteScale& scale,
                                 float* y) {
  for (size_t i = 0; i < pixels * channels; ++i) {
    const size_t c = i % channels;
    y[i] = static_cast<float>(double{scale.factor[c]} * bytes[i] +
                              scale.addend[c]);
  }
}

}  // namespace oarlock::nn
