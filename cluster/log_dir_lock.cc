#include "cluster/log_dir_lock.h"

#include <fcntl.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <filesystem>
#include <system_error>

#include "absl/memory/memory.h"
#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "base/log.h"

namespace oarlock::cluster {
namespace {

constexpr char kLockFile[] = "/LOCK";

// Where in the file a role's byte is. Bytes need not exist to be locked.
off_t ByteOf(const LogWriter& writer) {
  return 2 * off_t{writer.index} + (writer.role == Role::kServer ? 1 : 0);
}

std::string NameOf(const LogWriter& writer) {
  return absl::StrCat(writer.role == Role::kServer ? "server " : "worker ",
                      writer.index);
}

// Of the open file, not of the process: another lock of this process is as
// strange to it as another process's. 0 or an errno.
int LockByte(int file, off_t byte) {
  struct flock range = {};
  range.l_type = F_WRLCK;
  range.l_whence = SEEK_SET;
  range.l_start = byte;
  range.l_len = 1;
  while (fcntl(file, F_OFD_SETLK, &range) != 0) {
    if (errno != EINTR) return errno;
  }
  return 0;
}

absl::Status CannotBe(const std::string& log_dir, const char* what,
                      const std::string& why) {
  return absl::UnavailableError(
      absl::StrCat("the log folder ", log_dir, " cannot be ", what, ": ", why,
                   "; give a folder that can be written by --log_dir"));
}

}  // namespace

absl::StatusOr<std::unique_ptr<LogDirLock>> LogDirLock::Take(
    const std::string& log_dir, const std::vector<LogWriter>& writers) {
  std::error_code error;
  std::filesystem::create_directories(log_dir, error);
  if (error) return CannotBe(log_dir, "made", error.message());
  const int file = open(absl::StrCat(log_dir, kLockFile).c_str(),
                        O_RDWR | O_CREAT | O_CLOEXEC, 0644);
  if (file < 0) return CannotBe(log_dir, "written", std::strerror(errno));
  auto lock = absl::WrapUnique(new LogDirLock(file));
  for (const LogWriter& writer : writers) {
    const int failure = LockByte(file, ByteOf(writer));
    if (failure == 0) continue;
    if (failure == EAGAIN || failure == EACCES) {
      return absl::UnavailableError(absl::StrCat(
          "another job writes to the log folder ", log_dir, " as ",
          NameOf(writer),
          ", too; give this one a folder of its own by --log_dir"));
    }
    Log().warn(
        "the log folder {} cannot be locked: {}; another job that writes there "
        "would go unnoticed",
        log_dir, std::strerror(failure));
    break;
  }
  return lock;
}

LogDirLock::~LogDirLock() { close(file_); }

}  // namespace oarlock::cluster
