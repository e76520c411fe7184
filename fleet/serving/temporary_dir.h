// A folder for what need not outlive the process.

#ifndef OARLOCK_FLEET_SERVING_TEMPORARY_DIR_H_
#define OARLOCK_FLEET_SERVING_TEMPORARY_DIR_H_

#include <memory>
#include <string>
#include <utility>

#include "absl/status/statusor.h"

namespace oarlock {

// New, for this user alone, in the system's temporary folder (TMPDIR, else
// /tmp); removed, with what is in it, when this ends.
class TemporaryDir {
 public:
  // `name`: what its name begins with. Errors of the system.
  static absl::StatusOr<std::unique_ptr<TemporaryDir>> Create(
      const std::string& name);

  ~TemporaryDir();
  TemporaryDir(const TemporaryDir&) = delete;
  TemporaryDir& operator=(const TemporaryDir&) = delete;

  const std::string& path() const { return path_; }

 private:
  explicit TemporaryDir(std::string path) : path_(std::move(path)) {}

  const std::string path_;
};

}  // namespace oarlock

#endif  // OARLOCK_FLEET_SERVING_TEMPORARY_DIR_H_
