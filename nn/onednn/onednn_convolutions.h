// Convolutions by oneDNN's primitives. A primitive is created once for each
// kind of convolution, kept, and given new addresses at each run. oneDNN's C++
// interface throws for a convolution that it does not support. It supports
// every shape of these types, so that would break an invariant and end the
// process.
//
// Images stay [height, width, channels]: oneDNN is about as fast on them as
// with its preferred order. For weights oneDNN prefers blocks that suit the
// operation. So weights are reordered before each operation, and their
// gradients after it. Weights are small in comparison with the computation.
//
// Thread safety: only one thread may use an object, always the same one.

#ifndef OARLOCK_NN_ONEDNN_ONEDNN_CONVOLUTIONS_H_
#define OARLOCK_NN_ONEDNN_ONEDNN_CONVOLUTIONS_H_

#include <cstddef>
#include <memory>

#include "nn/image_operations.h"

namespace oarlock::nn {

class OneDnnConvolutions {
 public:
  enum class Operands {
    kFloat32,
    // Inputs, weights and output gradients are rounded to bfloat16 for
    // multiplication; sums, outputs and gradients are float32. REQUIRES:
    // CpuMultipliesBfloat16().
    kBfloat16,
  };
  // `threads` threads, at least 1, compute each operation.
  OneDnnConvolutions(Operands operands, int threads);
  ~OneDnnConvolutions();

  // Contracts as in image_operations.h. Forward and Backward allocate only for
  // a new kind (images, shape, activation, bias) and for new sizes.
  size_t Scratch(size_t max_images, const ConvolutionShape& shape) const;
  void Forward(const ConvolutionArgs& args, float* y);
  void Backward(const ConvolutionArgs& args, const float* y,
                const ConvolutionGradients& gradients);

 private:
  struct State;
  const int threads_;
  const std::unique_ptr<State> state_;
};

}  // namespace oarlock::nn

#endif  // OARLOCK_NN_ONEDNN_ONEDNN_CONVOLUTIONS_H_
