// Convolutions by oneDNN's primitives, made once for each kind of convolution,
// kept, and given new addresses at each run. oneDNN's C++ interface throws
// where it lacks a convolution: it has one for every shape of these types, so
// that breaks an invariant and ends the process.
//
// Images stay [height, width, channels], which oneDNN computes on about as fast
// as in the order it likes best. Weights it likes best in blocks that suit the
// operation, so they are reordered before each, and their gradient after: they
// are small beside what is computed with them.
//
// Thread safety: one thread at a time, the same for good.

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
    // Inputs, weights and output gradients are rounded to bfloat16 where they
    // are multiplied; sums, outputs and gradients are float32. Only where
    // CpuMultipliesBfloat16().
    kBfloat16,
  };
  // Each operation is computed by so many threads, at least 1.
  OneDnnConvolutions(Operands operands, int threads);
  ~OneDnnConvolutions();

  // Contracts as in image_operations.h. Allocate only for a kind (images,
  // shape, activation, bias) that is new, and for sizes that are.
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
