// The backends by name.

#ifndef OARLOCK_WORKER_NN_BACKENDS_H_
#define OARLOCK_WORKER_NN_BACKENDS_H_

#include <memory>
#include <string>

#include "absl/status/statusor.h"
#include "worker/nn/math_backend.h"

namespace oarlock {

// "onednn", "onednn_bfloat16" or "reference", computed by `threads` threads, at
// least 1 ("reference": by one); on a GPU "cuda", "cuda_tf32" or
// "cuda_bfloat16", with ":N" behind it for another GPU than the first.
// InvalidArgument names the legal ones. FailedPrecondition where the CPU lacks
// what the backend needs, or there is no such GPU.
absl::StatusOr<std::unique_ptr<MathBackend>> NewMathBackend(
    const std::string& name, int threads = 1);

}  // namespace oarlock

#endif  // OARLOCK_WORKER_NN_BACKENDS_H_
