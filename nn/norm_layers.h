// Norms whose statistics are sums over examples (counts, sums, squares). The
// sums of several workers add up, so the changes of each worker can be pushed
// as a gradient. Changes of running averages could not. Statistics: count [1],
// sum and squares [columns]. Squares are those of the distances to the mean at
// that time.

#ifndef OARLOCK_NN_NORM_LAYERS_H_
#define OARLOCK_NN_NORM_LAYERS_H_

#include <memory>

#include "nn/layer.h"
#include "nn/operation.h"

namespace oarlock::nn {

struct BatchNormOptions {
  // Factor by which a step multiplies the sums before it. So about the last 1 /
  // (1 - decay) steps have an effect.
  float decay = 0.99f;
  float epsilon = 1e-5f;
  Activation activation = Activation::kNone;
};
// activation((x - mean) / sqrt(variance + epsilon) * scale + shift) of one
// input of any shape, number by number (Ioffe and Szegedy, 2015). In training,
// mean and variance are those of the batch. Otherwise they follow from the
// sums, and are 0 and 1 while the count is 0. Parameters: scale and shift,
// which start at 1 and 0. The statistics change only in training.
std::unique_ptr<Layer> NewBatchNorm(const BatchNormOptions& options);

// (x - mean) / sqrt(variance) of one input of any shape, number by number, from
// the sums before the step: PaddlePaddle's data_norm. The sums start as the
// sums of 10,000 examples of mean 0 and variance 1. A step multiplies them by
// .999999. No parameters; the gradient treats mean and variance as constants.
// With a variance of 0 the divisor is sqrt(1e-5).
std::unique_ptr<Layer> NewDataNorm();

}  // namespace oarlock::nn

#endif  // OARLOCK_NN_NORM_LAYERS_H_
