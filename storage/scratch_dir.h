// A directory whose files are worth nothing once their process is gone.
//
// It is known by its marker file, which is also what its owner locks:
//
//   <path>/OARLOCK_SCRATCH   the marker
//   <path>/data/             the files
//
// What a process that was killed has left is wiped by the next one; what
// somebody else has put there is never touched.

#ifndef OARLOCK_STORAGE_SCRATCH_DIR_H_
#define OARLOCK_STORAGE_SCRATCH_DIR_H_

#include <memory>
#include <string>

#include "absl/status/statusor.h"
#include "storage/file_system.h"

namespace oarlock::storage {

class ScratchDir {
 public:
  // Makes the directory, and those above it, or takes over one with a marker
  // and wipes it. FailedPrecondition when it holds anything that is not ours,
  // or its owner is alive; PermissionDenied, NotFound and the like when the
  // system refuses. Errors name the path.
  // What lies in data_path() is made and removed through `files`.
  static absl::StatusOr<std::unique_ptr<ScratchDir>> Create(
      const std::string& path, FileSystem* files = FileSystem::Real());
  // Removes it with everything in data_path(). If it cannot, the marker stays
  // for the next owner.
  ~ScratchDir();
  ScratchDir(const ScratchDir&) = delete;
  ScratchDir& operator=(const ScratchDir&) = delete;

  const std::string& path() const { return path_; }
  // A folder of its own, empty at first.
  std::string data_path() const;

 private:
  ScratchDir(std::string path, FileSystem* files, int marker_fd)
      : path_(std::move(path)), files_(files), marker_fd_(marker_fd) {}

  const std::string path_;
  FileSystem* const files_;
  // Locked as long as it is open.
  const int marker_fd_;
};

}  // namespace oarlock::storage

#endif  // OARLOCK_STORAGE_SCRATCH_DIR_H_
