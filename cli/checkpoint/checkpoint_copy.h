// `oarlock checkpoint copy`: Python reaches stores, so Python copies
// (python/oarlock/_copy.py).

#ifndef OARLOCK_CLI_CHECKPOINT_CHECKPOINT_COPY_H_
#define OARLOCK_CLI_CHECKPOINT_CHECKPOINT_COPY_H_

#include <string>

#include "absl/status/status.h"

namespace oarlock::cli {

// InvalidArgument, which repeats no password: one is empty, has credentials in
// it, or is a place that nobody else reaches; or both are the same folder, or
// one lies within the other.
absl::Status CheckCopy(const std::string& from, const std::string& to);

// Becomes the program that copies, which ends with 0 or, after one line, with
// 1; so this returns only errors: those of CheckCopy, and the system's where
// the interpreter `python` cannot be run. Empty: see CheckpointConfig.
absl::Status BecomeCopy(const std::string& from, const std::string& to,
                        std::string python);

}  // namespace oarlock::cli

#endif  // OARLOCK_CLI_CHECKPOINT_CHECKPOINT_COPY_H_
