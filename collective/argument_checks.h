// What every communicator demands of its arguments.

#ifndef OARLOCK_COLLECTIVE_ARGUMENT_CHECKS_H_
#define OARLOCK_COLLECTIVE_ARGUMENT_CHECKS_H_

#include <cstddef>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"

namespace oarlock::collective {

inline absl::Status CheckRoot(int root, int size) {
  if (root >= 0 && root < size) return absl::OkStatus();
  return absl::InvalidArgumentError(absl::StrCat(
      "a broadcast from rank ", root, "; ranks are 0 to ", size - 1));
}

inline absl::Status CheckGatherSizes(size_t mine_bytes, size_t all_bytes,
                                     int size) {
  if (all_bytes == mine_bytes * size) return absl::OkStatus();
  return absl::InvalidArgumentError(absl::StrCat(
      "an all-gather of ", mine_bytes, " bytes from each of ", size,
      " ranks needs room for ", mine_bytes * size, ", not ", all_bytes));
}

}  // namespace oarlock::collective

#endif  // OARLOCK_COLLECTIVE_ARGUMENT_CHECKS_H_
