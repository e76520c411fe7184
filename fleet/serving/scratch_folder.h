// A folder for what need not outlive the process.

#ifndef OARLOCK_FLEET_SERVING_SCRATCH_FOLDER_H_
#define OARLOCK_FLEET_SERVING_SCRATCH_FOLDER_H_

#include <memory>
#include <string>
#include <utility>

#include "absl/status/statusor.h"

namespace oarlock {

// New, for this user alone, in the system's temporary folder (TMPDIR, else
// /tmp); removed, with what is in it, when this ends.
class ScratchFolder {
 public:
  // `name`: what its name begins with. Errors of the system.
  static absl::StatusOr<std::unique_ptr<ScratchFolder>> Create(
      const std::string& name);

  ~ScratchFolder();
  ScratchFolder(const ScratchFolder&) = delete;
  ScratchFolder& operator=(const ScratchFolder&) = delete;

  const std::string& path() const { return path_; }

 private:
  explicit ScratchFolder(std::string path) : path_(std::move(path)) {}

  const std::string path_;
};

}  // namespace oarlock

#endif  // OARLOCK_FLEET_SERVING_SCRATCH_FOLDER_H_
