// The backends by name.

#ifndef OARLOCK_WORKER_NN_BACKENDS_H_
#define OARLOCK_WORKER_NN_BACKENDS_H_

#include <memory>
#include <string>

#include "absl/status/statusor.h"
#include "worker/nn/math_backend.h"

namespace oarlock {

// "onednn" or "reference"; InvalidArgument names the legal ones.
absl::StatusOr<std::unique_ptr<MathBackend>> NewMathBackend(
    const std::string& name);

}  // namespace oarlock

#endif  // OARLOCK_WORKER_NN_BACKENDS_H_
