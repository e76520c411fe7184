// The backends for the CPU. oneDNN computes products and convolutions, Highway
// everything else (cpu_backend.h). Both choose their instructions at run time.
//
// `threads` threads, at least 1, compute an operation. Results are the same
// bits on one machine with the same number of threads. With another number of
// threads, or another instruction set, they may differ by rounding.

#ifndef OARLOCK_NN_ONEDNN_ONEDNN_BACKEND_H_
#define OARLOCK_NN_ONEDNN_ONEDNN_BACKEND_H_

#include <memory>

#include "absl/status/statusor.h"
#include "nn/math_backend.h"

namespace oarlock::nn {

std::unique_ptr<MathBackend> NewOneDnnBackend(int threads = 1);

// The same, with the operands of products and convolutions rounded to bfloat16
// (8 bits of precision), which the CPU multiplies several times as fast. Sums,
// biases, outputs, gradients and all arrays of the caller are float32. The
// gradient of a weight is added to the float32 weight, so that small steps are
// not lost. Products with a side of at most four are not rounded.
//
// A linear layer rounds its weight and its input once for all three products. A
// convolution rounds its input once.
//
// FailedPrecondition on a CPU that cannot multiply bfloat16. Computing in
// float32 would not be what was requested, and rounding there would only cost
// time.
absl::StatusOr<std::unique_ptr<MathBackend>> NewOneDnnBfloat16Backend(
    int threads = 1);

}  // namespace oarlock::nn

#endif  // OARLOCK_NN_ONEDNN_ONEDNN_BACKEND_H_
