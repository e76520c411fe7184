// Whether all servers see the same folder of checkpoints: server 0 makes a file
// in it, and the others look for it.

#ifndef OARLOCK_STORAGE_FOLDER_MARK_H_
#define OARLOCK_STORAGE_FOLDER_MARK_H_

#include <cstdint>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"

namespace oarlock::storage {

// Makes an empty file "store/mark-<16 hexadecimal digits>", and removes older
// ones.
// A name that nobody has looked for yet is in no file system's memory of what
// is not there. Returns the number, which is not 0. Errors of the system.
absl::StatusOr<uint64_t> WriteFolderMark(const std::string& folder);

// FailedPrecondition unless `own`, this server's folder, has the mark of
// `theirs`, server 0's. Empty: it has none. A mark of 0 is not looked for: an
// older release makes none.
absl::Status CheckFolderMark(const std::string& own, const std::string& theirs,
                             uint64_t mark);

}  // namespace oarlock::storage

#endif  // OARLOCK_STORAGE_FOLDER_MARK_H_
