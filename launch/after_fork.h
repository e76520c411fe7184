// What a process that was just forked does: async-signal-safe calls alone,
// since the process before may have had threads.

#ifndef OARLOCK_LAUNCH_AFTER_FORK_H_
#define OARLOCK_LAUNCH_AFTER_FORK_H_

#include <cstddef>

#include "absl/status/status.h"
#include "absl/strings/string_view.h"

namespace oarlock::launch {

// Every signal has its default action, none is blocked.
void DefaultSignals();
// Puts /dev/null, opened with these flags, in the place of a descriptor.
void OpenNull(int fd, int flags);
// Reads exactly `size` bytes, or returns false.
bool ReadFully(int fd, void* data, size_t size);

// Unavailable: `what` failed, and why. Not for after a fork.
absl::Status ErrnoError(absl::string_view what, int error);

}  // namespace oarlock::launch

#endif  // OARLOCK_LAUNCH_AFTER_FORK_H_
