// How a call of the C interface ends.

#ifndef OARLOCK_CAPI_OUTCOME_H_
#define OARLOCK_CAPI_OUTCOME_H_

#include <string>
#include <string_view>

#include "absl/status/status.h"
#include "capi/include/oarlock/oarlock.h"

namespace oarlock::capi {

struct Outcome {
  oarlock_code code = OARLOCK_OK;
  // One line; of OARLOCK_OK none.
  std::string message;

  Outcome() = default;
  Outcome(oarlock_code code, std::string message)
      : code(code), message(std::move(message)) {}
  // Codes of absl are those of gRPC, 1 to 16.
  // NOLINTNEXTLINE(google-explicit-constructor): converts, as StatusOr does
  Outcome(const absl::Status& status)
      : code(status.raw_code()), message(status.message()) {}

  bool ok() const { return code == OARLOCK_OK; }
};

// Into what the caller hands in, which may be null. Takes no memory.
void Describe(oarlock_code code, std::string_view message,
              oarlock_error* error);

}  // namespace oarlock::capi

#endif  // OARLOCK_CAPI_OUTCOME_H_
