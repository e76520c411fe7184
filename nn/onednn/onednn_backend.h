// The CPU's backends: products and convolutions by oneDNN, everything else by
// Highway (cpu_backend.h). Both choose their instructions at run time.
//
// An operation is computed by `threads` threads, at least 1. Results repeat bit
// for bit on one machine with as many threads; with others, and on another
// instruction set, they may differ by rounding.

#ifndef OARLOCK_NN_ONEDNN_ONEDNN_BACKEND_H_
#define OARLOCK_NN_ONEDNN_ONEDNN_BACKEND_H_

#include <memory>

#include "absl/status/statusor.h"
#include "nn/math_backend.h"

namespace oarlock::nn {

std::unique_ptr<MathBackend> NewOneDnnBackend(int threads = 1);

// The same, with operands of products and convolutions rounded to bfloat16 (8
// bits of precision), which the CPU multiplies several times as fast. Sums,
// biases, outputs and gradients are float32, and so are all arrays that the
// caller sees; a weight's gradient is added to the float32 weight, so that
// small steps are not lost. Products with a side of at most four are not
// rounded.
//
// A linear layer rounds its weight and its input once for all three products,
// a convolution its input.
//
// FailedPrecondition on a CPU that does not multiply bfloat16: computing in
// float32 would not be what was asked for, and rounding there would only cost.
absl::StatusOr<std::unique_ptr<MathBackend>> NewOneDnnBfloat16Backend(
    int threads = 1);

}  // namespace oarlock::nn

#endif  // OARLOCK_NN_ONEDNN_ONEDNN_BACKEND_H_
