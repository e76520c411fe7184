// Norms that remember by sums over examples (counts, sums, squares). Sums of
// several workers add up, so what each of them learns can be pushed as a
// gradient; running averages could not. Statistics: count [1], sum and squares
// [columns], the latter of distances to the mean as it was.

#ifndef OARLOCK_NN_NORM_LAYERS_H_
#define OARLOCK_NN_NORM_LAYERS_H_

#include <memory>

#include "nn/layer.h"
#include "nn/operation.h"

namespace oarlock::nn {

struct BatchNormOptions {
  // What a step leaves of the sums before it: those of about the last 1 /
  // (1 - decay) steps count.
  float decay = 0.99f;
  float epsilon = 1e-5f;
  Activation activation = Activation::kNone;
};
// activation((x - mean) / sqrt(variance + epsilon) * scale + shift) of one
// input of any shape, number by number (Ioffe and Szegedy, 2015): in training
// mean and variance are the batch's, else those of the sums, and 0 and 1 while
// there are none. Parameters scale and shift, which start at 1 and 0. Learns in
// training only.
std::unique_ptr<Layer> NewBatchNorm(const BatchNormOptions& options);

// (x - mean) / sqrt(variance) of one input of any shape, number by number, by
// the sums as they were before the step: PaddlePaddle's data_norm. The sums
// start as those of 10,000 examples of mean 0 and variance 1, and keep .999999
// of themselves in a step. No parameters; the gradient takes mean and variance
// for constants. A variance of 0 divides by sqrt(1e-5).
std::unique_ptr<Layer> NewDataNorm();

}  // namespace oarlock::nn

#endif  // OARLOCK_NN_NORM_LAYERS_H_
