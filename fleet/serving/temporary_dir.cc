#include "fleet/serving/temporary_dir.h"

#include <stdlib.h>

#include <cerrno>
#include <filesystem>
#include <system_error>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"

namespace oarlock {

absl::StatusOr<std::unique_ptr<TemporaryDir>> TemporaryDir::Create(
    const std::string& name) {
  std::error_code error;
  const std::string parent = std::filesystem::temp_directory_path(error);
  if (error) {
    return absl::FailedPreconditionError(absl::StrCat(
        "the folder for temporary files, which TMPDIR names: ", error.message(),
        "; name another one"));
  }
  std::string path = absl::StrCat(parent, "/", name, "-XXXXXX");
  if (mkdtemp(path.data()) == nullptr) {
    return absl::ErrnoToStatus(errno,
                               absl::StrCat("cannot make a folder in ", parent,
                                            " (TMPDIR names another place)"));
  }
  return std::unique_ptr<TemporaryDir>(new TemporaryDir(std::move(path)));
}

TemporaryDir::~TemporaryDir() {
  std::error_code ignored;
  std::filesystem::remove_all(path_, ignored);
}

}  // namespace oarlock
