// How many files and connections this process may have open.

#ifndef OARLOCK_BASE_PROCESS_DESCRIPTOR_LIMIT_H_
#define OARLOCK_BASE_PROCESS_DESCRIPTOR_LIMIT_H_

#include <cstdint>

#include "absl/status/status.h"

namespace oarlock {

// Raises the limit as far as the process may. FailedPrecondition, with both
// numbers, where that is less than `needed`.
absl::Status RaiseDescriptorLimit(uint64_t needed);

}  // namespace oarlock

#endif  // OARLOCK_BASE_PROCESS_DESCRIPTOR_LIMIT_H_
