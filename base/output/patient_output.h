// Output to a pipe or terminal that nobody may be reading, without ever waiting
// for it.

#ifndef OARLOCK_BASE_OUTPUT_PATIENT_OUTPUT_H_
#define OARLOCK_BASE_OUTPUT_PATIENT_OUTPUT_H_

#include <cstddef>
#include <string_view>

#include "absl/time/time.h"

namespace oarlock {

// Writes what there is room for at once; returns how many bytes. What cannot be
// written at all (nobody has it open any more) counts as written.
size_t WriteWhatFits(int fd, std::string_view bytes);

// Waits until there is room, at most for `limit`. False when there is none.
bool AwaitRoom(int fd, absl::Duration limit);

}  // namespace oarlock

#endif  // OARLOCK_BASE_OUTPUT_PATIENT_OUTPUT_H_
