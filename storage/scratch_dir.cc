#include "storage/scratch_dir.h"

#include <errno.h>
#include <fcntl.h>
#include <sys/file.h>
#include <unistd.h>

#include <filesystem>
#include <system_error>
#include <utility>

#include "absl/memory/memory.h"
#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "base/status_macros.h"

namespace oarlock::storage {
namespace {

namespace fs = std::filesystem;

constexpr char kMarker[] = "OARLOCK_SCRATCH";
constexpr char kData[] = "data";

absl::Status SystemError(int error, absl::string_view what,
                         const std::string& path) {
  return absl::ErrnoToStatus(
      error, absl::StrCat("cannot ", what, " ", path,
                          " for rows on disk; name another directory or "
                          "mend this one"));
}

// Whether the directory is empty or ours.
absl::Status CheckNothingForeign(const std::string& path) {
  std::error_code error;
  std::string foreign;
  bool marked = false, empty = true;
  for (fs::directory_iterator entry(path, error), end; !error && entry != end;
       entry.increment(error)) {
    const std::string name = entry->path().filename();
    empty = false;
    marked = marked || name == kMarker;
    if (name != kMarker && name != kData) foreign = name;
  }
  if (error) return SystemError(error.value(), "list", path);
  if (foreign.empty() && (marked || empty)) return absl::OkStatus();
  return absl::FailedPreconditionError(absl::StrCat(
      path, " is to hold rows on disk but has files of somebody else (",
      foreign.empty() ? kData : foreign,
      "); it must be empty, new or left by an earlier run; name another "
      "directory"));
}

}  // namespace

absl::StatusOr<std::unique_ptr<ScratchDir>> ScratchDir::Create(
    const std::string& path, FileSystem* files) {
  std::error_code error;
  fs::create_directories(path, error);
  if (error) return SystemError(error.value(), "make", path);
  OARLOCK_RETURN_IF_ERROR(CheckNothingForeign(path));
  const std::string marker = absl::StrCat(path, "/", kMarker);
  const int fd = open(marker.c_str(), O_RDWR | O_CREAT | O_CLOEXEC, 0644);
  if (fd < 0) return SystemError(errno, "make", marker);
  if (flock(fd, LOCK_EX | LOCK_NB) != 0) {
    const int reason = errno;
    close(fd);
    if (reason != EWOULDBLOCK) return SystemError(reason, "lock", marker);
    return absl::FailedPreconditionError(
        absl::StrCat(path,
                     " holds the rows on disk of another server that runs; "
                     "name another directory or end that one"));
  }
  std::unique_ptr<ScratchDir> scratch =
      absl::WrapUnique(new ScratchDir(path, files, fd));
  OARLOCK_RETURN_IF_ERROR(files->RemoveTree(scratch->data_path()));
  OARLOCK_RETURN_IF_ERROR(files->MakeFolders(scratch->data_path()));
  return scratch;
}

ScratchDir::~ScratchDir() {
  std::error_code ignored;
  // The marker last, while it is locked, and when the rest is gone for good:
  // whoever comes in between finds a directory that is ours.
  if (files_->RemoveTree(data_path()).ok() && files_->SyncFolder(path_).ok()) {
    fs::remove(absl::StrCat(path_, "/", kMarker), ignored);
  }
  close(marker_fd_);
  fs::remove(path_, ignored);
}

std::string ScratchDir::data_path() const {
  return absl::StrCat(path_, "/", kData);
}

}  // namespace oarlock::storage
