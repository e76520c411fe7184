// The backends by name.

#ifndef OARLOCK_WORKER_NN_BACKENDS_H_
#define OARLOCK_WORKER_NN_BACKENDS_H_

#include <memory>
#include <string>

#include "absl/status/statusor.h"
#include "worker/nn/math_backend.h"

namespace oarlock {

// "onednn", "onednn_bfloat16" or "reference"; InvalidArgument names the legal
// ones. FailedPrecondition where the CPU lacks what the backend needs. An
// operation is computed by `threads` threads, at least 1 ("reference": by one).
absl::StatusOr<std::unique_ptr<MathBackend>> NewMathBackend(
    const std::string& name, int threads = 1);

}  // namespace oarlock

#endif  // OARLOCK_WORKER_NN_BACKENDS_H_
