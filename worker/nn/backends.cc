#include "worker/nn/backends.h"

#include "absl/strings/str_cat.h"
#include "worker/nn/onednn_backend.h"
#include "worker/nn/reference_backend.h"

namespace oarlock {

absl::StatusOr<std::unique_ptr<MathBackend>> NewMathBackend(
    const std::string& name, int threads) {
  if (name == "onednn") return NewOneDnnBackend(threads);
  if (name == "onednn_bfloat16") return NewOneDnnBfloat16Backend(threads);
  if (name == "reference") return NewReferenceBackend();
  return absl::InvalidArgumentError(
      absl::StrCat("math backend is \"", name,
                   "\"; legal are \"onednn\", \"onednn_bfloat16\" and "
                   "\"reference\": choose one"));
}

}  // namespace oarlock
