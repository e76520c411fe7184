// What a launcher does with the logs of its processes.

#ifndef OARLOCK_LAUNCH_LOG_FILES_H_
#define OARLOCK_LAUNCH_LOG_FILES_H_

#include <string>
#include <vector>

#include "absl/status/status.h"

namespace oarlock::launch {

// Renames an existing `path` to `path`.old.
absl::Status KeepAsOld(const std::string& path);
// The last `max_lines` lines of a file, of its last 64 KiB at most.
std::vector<std::string> LastLines(const std::string& path, int max_lines);

}  // namespace oarlock::launch

#endif  // OARLOCK_LAUNCH_LOG_FILES_H_
