// Creates math backends by name.

#ifndef OARLOCK_NN_BACKENDS_BACKENDS_H_
#define OARLOCK_NN_BACKENDS_BACKENDS_H_

#include <memory>
#include <string>

#include "absl/status/statusor.h"
#include "nn/math_backend.h"

namespace oarlock::nn {

// "onednn", "onednn_bfloat16" or "reference", on the CPU; "cuda:N",
// "cuda_tf32:N" or "cuda_bfloat16:N", on GPU number N. InvalidArgument names
// the legal ones. FailedPrecondition where the CPU lacks instructions that the
// backend needs, or the GPU does not exist. On the CPU, `threads` threads, at
// least 1, compute an operation ("reference" always uses one thread).
absl::StatusOr<std::unique_ptr<MathBackend>> NewMathBackend(
    const std::string& name, int threads = 1);

}  // namespace oarlock::nn

#endif  // OARLOCK_NN_BACKENDS_BACKENDS_H_
