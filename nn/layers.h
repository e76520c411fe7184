// The kinds of nodes. Each supports tensors of any shape that its comment
// allows.

#ifndef OARLOCK_NN_LAYERS_H_
#define OARLOCK_NN_LAYERS_H_

#include <cstddef>
#include <memory>

#include "nn/layer.h"
#include "nn/math_backend.h"
#include "nn/parameter.h"
#include "nn/tensor.h"

namespace oarlock::nn {

// The dense features of the step, [num_dense] or any other shape of that size
// (an image). No inputs; copies nothing.
std::unique_ptr<Layer> NewDenseInput(Shape shape);

struct EmbeddingOptions {
  int sparse_input = 0;  // number in StepInput::sparse
  size_t num_slots = 0;
  size_t row_dim = 0;
  // The columns of the row that are looked up.
  size_t column_begin = 0;
  size_t width = 0;
  bool mean = false;
};
// [num_slots, width]: for each slot the sum, or mean, of its keys' rows; zeros
// for a slot without keys. No inputs.
std::unique_ptr<Layer> NewEmbedding(const EmbeddingOptions& options);

// [1]: what a factorization machine has of pairs of keys in one slot, the sum
// over slots of the inner products of all pairs of their keys' rows, each times
// its key's weight, or with `mean` divided by the number of keys. 0 where no
// slot has several keys. No inputs. In host memory, as weights are
// (nn/weighted_bags.h).
std::unique_ptr<Layer> NewPairsInSlots(const EmbeddingOptions& options);

// Inputs of any shape one after the other, flat. Put inputs that need a
// gradient first: last inputs without a gradient cost nothing in Backward.
std::unique_ptr<Layer> NewConcat();

struct LinearOptions {
  size_t num_outputs = 0;
  bool bias = true;
  Activation activation = Activation::kNone;
  WeightStart weight_start = WeightStart::kFanInNormal;
  float bias_init = 0;
};
// [num_outputs] = activation(x W + b) for one input x of any shape, flat.
// Parameters: weight [num_inputs, num_outputs] and bias [num_outputs].
std::unique_ptr<Layer> NewLinear(const LinearOptions& options);

// One input of any shape plus a parameter bias of its shape, which starts
// at 0.
std::unique_ptr<Layer> NewBias();

// [size]: one input of any shape, flat. A view: costs nothing.
std::unique_ptr<Layer> NewFlatten();

struct DropoutOptions {
  float rate = 0.5f;  // 0 or more, less than 1
};
// One input of any shape. In training, each float becomes 0 with probability
// `rate`, else it is divided by 1 - rate; StepInput::random_seed determines
// which. Outside training, the input is not changed. (Srivastava et al., 2014,
// scaled in training as Paddle's upscale_in_train.)
std::unique_ptr<Layer> NewDropout(const DropoutOptions& options);

// max(x, 0) of one input of any shape.
std::unique_ptr<Layer> NewRelu();

// The sum of one or more inputs of the same shape.
std::unique_ptr<Layer> NewAdd();

// [1]: the sum of all floats of one input of any shape.
std::unique_ptr<Layer> NewSumColumns();

// [1]: the second-order part of a factorization machine over one input
// [num_vectors, width], the sum of the inner products of all pairs.
std::unique_ptr<Layer> NewFmSecondOrder();

// Loss of one input of logits [classes], 2 or more; a label is the number of
// a class. Output: the probabilities of the classes.
std::unique_ptr<Layer> NewSoftmaxCrossEntropy();

// Loss of one input of one logit; labels in [0, 1]. Output [1]: the
// probability of label 1.
std::unique_ptr<Layer> NewSigmoidCrossEntropy();

}  // namespace oarlock::nn

#endif  // OARLOCK_NN_LAYERS_H_
