#include "data/reader/byte_source.h"

#include <errno.h>
#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"
#include "base/status_macros.h"

namespace oarlock::data {
namespace {

class FileSource : public ByteSource {
 public:
  FileSource(std::string path, FileDescriptor fd)
      : path_(std::move(path)), fd_(std::move(fd)) {}

  absl::StatusOr<size_t> Read(char* data, size_t size) override {
    return ReadSome(fd_, data, size, path_);
  }

  absl::Status Seek(uint64_t offset) override {
    if (lseek(fd_.get(), static_cast<off_t>(offset), SEEK_SET) < 0) {
      return absl::ErrnoToStatus(
          errno, absl::StrCat("cannot seek in '", path_, "' to byte ", offset));
    }
    return absl::OkStatus();
  }

 private:
  const std::string path_;
  const FileDescriptor fd_;
};

absl::string_view KindOf(mode_t mode) {
  return S_ISFIFO(mode) ? "a pipe" : S_ISSOCK(mode) ? "a socket" : "a device";
}

}  // namespace

absl::Status CheckIsNoSpecialFile(const std::string& path) {
  struct stat info;
  if (stat(path.c_str(), &info) != 0 || S_ISREG(info.st_mode) ||
      S_ISDIR(info.st_mode)) {
    return absl::OkStatus();
  }
  return absl::FailedPreconditionError(
      absl::StrCat("data file '", path, "' is ", KindOf(info.st_mode),
                   "; legal are regular files: write what it gives to one, or "
                   "have a --pipe_command make it"));
}

absl::StatusOr<FileDescriptor> OpenForReading(const std::string& path) {
  OARLOCK_RETURN_IF_ERROR(CheckIsNoSpecialFile(path));
  FileDescriptor fd(open(path.c_str(), O_RDONLY | O_CLOEXEC));
  if (!fd.valid()) {
    return absl::ErrnoToStatus(
        errno, absl::StrCat("cannot open data file '", path, "'"));
  }
  return fd;
}

absl::StatusOr<size_t> ReadSome(const FileDescriptor& fd, char* data,
                                size_t size, const std::string& what) {
  while (true) {
    const ssize_t n = read(fd.get(), data, size);
    if (n >= 0) return static_cast<size_t>(n);
    if (errno != EINTR) {
      return absl::ErrnoToStatus(errno,
                                 absl::StrCat("cannot read '", what, "'"));
    }
  }
}

absl::StatusOr<std::unique_ptr<ByteSource>> OpenFile(const std::string& path) {
  OARLOCK_ASSIGN_OR_RETURN(FileDescriptor fd, OpenForReading(path));
  return std::make_unique<FileSource>(path, std::move(fd));
}

}  // namespace oarlock::data
