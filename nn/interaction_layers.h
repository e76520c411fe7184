// The kinds of nodes in which features interact. Shapes are shapes of one
// example. docs/models.md says which models use them.

#ifndef OARLOCK_NN_INTERACTION_LAYERS_H_
#define OARLOCK_NN_INTERACTION_LAYERS_H_

#include <cstddef>
#include <memory>

#include "nn/layer.h"
#include "nn/operation.h"
#include "nn/parameter.h"
#include "nn/tensor.h"

namespace oarlock::nn {

// One input, as `shape` of the same size. A view: costs nothing.
std::unique_ptr<Layer> NewReshape(Shape shape);

// [1]: the second-order part of a field-aware factorization machine over one
// input [fields, fields * width], where row i has the vectors of field i for
// fields 0, 1, ...: the sum over i < j of v[i, j] . v[j, i] (Juan et al.,
// Field-aware Factorization Machines for CTR Prediction, 2016).
std::unique_ptr<Layer> NewFieldAwareFm();

// a z + x number by number, for inputs a, z, x. a and x have the same shape; z
// has this shape too, or is one number. The last operation of DCN's cross
// layers.
std::unique_ptr<Layer> NewCross();

struct RowLinearOptions {
  size_t num_outputs = 0;
  bool bias = false;
  Activation activation = Activation::kNone;  // only with a bias
  WeightStart weight_start = WeightStart::kXavierUniform;
};
// [n, num_outputs] = activation(x W + b) for one input x [n, width], row by
// row. Parameters: weight [width, num_outputs] and bias [num_outputs].
std::unique_ptr<Layer> NewRowLinear(const RowLinearOptions& options);

// [columns, rows] of one input [rows, columns].
std::unique_ptr<Layer> NewTranspose();

// [columns]: the sum of the rows of one input [rows, columns].
std::unique_ptr<Layer> NewSumRows();

struct CompressedInteractionOptions {
  size_t num_maps = 0;
};
// A layer of xDeepFM's compressed interaction network (Lian et al., 2018) over
// inputs x [width, h] and x0 [width, m], the transposes of the paper's
// matrices: y[d, o] = the sum over i and j of x[d, i] x0[d, j] weight[i * m +
// j, o]. Parameter weight [h * m, num_maps].
std::unique_ptr<Layer> NewCompressedInteraction(
    const CompressedInteractionOptions& options);

struct PairwiseDotsOptions {
  size_t width = 0;
};
// [n (n - 1) / 2]: the inner products of all pairs of n vectors. One input of
// any shape is read as n vectors of `width` floats (the interaction of DLRM,
// Naumov et al., 2019).
std::unique_ptr<Layer> NewPairwiseDots(const PairwiseDotsOptions& options);

struct SelfAttentionOptions {
  size_t heads = 0;
};
// [n, heads * width] from one input [n, 3 * heads * width], whose rows are the
// queries, keys and values of all heads: scaled dot-product attention among the
// n rows, for each head (Vaswani et al., 2017).
std::unique_ptr<Layer> NewSelfAttention(const SelfAttentionOptions& options);

struct ScaledVectorsOptions {
  size_t width = 0;
  float init_range = 0.01f;
};
// [n, width]: each of the n numbers of one input times a vector of its own.
// Parameter vector [n, width], uniform within init_range.
std::unique_ptr<Layer> NewScaledVectors(const ScaledVectorsOptions& options);

}  // namespace oarlock::nn

#endif  // OARLOCK_NN_INTERACTION_LAYERS_H_
