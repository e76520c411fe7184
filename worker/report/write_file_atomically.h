// Small files for other programs to read.

#ifndef OARLOCK_WORKER_REPORT_WRITE_FILE_ATOMICALLY_H_
#define OARLOCK_WORKER_REPORT_WRITE_FILE_ATOMICALLY_H_

#include <string>

#include "absl/status/status.h"
#include "absl/strings/string_view.h"

namespace oarlock::worker {

// Makes `path` hold `text`: whoever opens it finds the old or the new text,
// never a part. Not synced. Unavailable names the path.
absl::Status WriteFileAtomically(const std::string& path,
                                 absl::string_view text);

}  // namespace oarlock::worker

#endif  // OARLOCK_WORKER_REPORT_WRITE_FILE_ATOMICALLY_H_
