#include "base/output/output_file.h"

#include <fcntl.h>
#include <signal.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <system_error>
#include <utility>

#include "absl/memory/memory.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "base/status_macros.h"

namespace oarlock {
namespace {

constexpr size_t kBufferBytes = 1 << 20;
// As the system has it.
constexpr int kMaxLinks = 40;

// Where the last link of `path` leads, there or not. ELOOP: nowhere.
absl::StatusOr<std::string> FollowLinks(const std::string& path) {
  std::filesystem::path target = path;
  for (int i = 0; i < kMaxLinks; ++i) {
    std::error_code none;
    const std::filesystem::path next =
        std::filesystem::read_symlink(target, none);
    if (none) return target.string();
    target = next.is_absolute() ? next : target.parent_path() / next;
  }
  errno = ELOOP;
  return absl::ErrnoToStatus(errno, path);
}

}  // namespace

OutputFile::OutputFile(const std::string& path)
    : name_(path == "-" ? "standard output" : absl::StrCat("'", path, "'")),
      path_(path) {}

OutputFile::~OutputFile() { Close(); }

absl::StatusOr<std::unique_ptr<OutputFile>> OutputFile::Create(
    const std::string& path) {
  auto file = absl::WrapUnique(new OutputFile(path));
  OARLOCK_RETURN_IF_ERROR(file->Open());
  return file;
}

absl::Status OutputFile::Open() {
  if (path_ == "-") {
    // What the program has printed so far comes first.
    std::fflush(stdout);
    fd_ = fcntl(STDOUT_FILENO, F_DUPFD_CLOEXEC, 0);
    if (fd_ < 0) return Failed();
    signal(SIGPIPE, SIG_IGN);
    return absl::OkStatus();
  }
  struct stat there;
  const bool exists = stat(path_.c_str(), &there) == 0;
  if (exists && S_ISDIR(there.st_mode)) {
    return absl::InvalidArgumentError(
        absl::StrCat("cannot write ", name_, ": it is a folder; name a file"));
  }
  // /dev/stdout leads to a file that someone else holds open.
  const bool is_special = absl::StartsWith(path_, "/proc/") ||
                          (absl::StartsWith(path_, "/dev/") &&
                           !absl::StartsWith(path_, "/dev/shm/"));
  if (is_special || (exists && !S_ISREG(there.st_mode))) {
    fd_ = open(path_.c_str(), O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0666);
    if (fd_ < 0) return Failed();
    // A reader that goes away is an error of the write.
    signal(SIGPIPE, SIG_IGN);
    return absl::OkStatus();
  }
  const absl::StatusOr<std::string> target = FollowLinks(path_);
  if (!target.ok()) return Failed();
  return OpenBeside(*target);
}

absl::Status OutputFile::OpenBeside(const std::string& target) {
  // One who may not write it may not replace it.
  if (access(target.c_str(), W_OK) != 0 && errno != ENOENT) return Failed();
  struct stat before;
  const bool exists = stat(target.c_str(), &before) == 0;
  for (int i = 0; fd_ < 0; ++i) {
    temporary_ = absl::StrCat(target, ".tmp", getpid(), ".", i);
    fd_ =
        open(temporary_.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0666);
    if (fd_ < 0 && errno != EEXIST) {
      temporary_.clear();
      return Failed();
    }
  }
  target_ = target;
  if (!exists) return absl::OkStatus();
  // First the owner: a new one takes bits of the mode away.
  if (fchown(fd_, before.st_uid, before.st_gid) != 0 && errno != EPERM) {
    return Failed();
  }
  return fchmod(fd_, before.st_mode & 07777) == 0 ? absl::OkStatus() : Failed();
}

absl::Status OutputFile::Write(absl::string_view bytes) {
  absl::StrAppend(&buffer_, bytes);
  return buffer_.size() < kBufferBytes ? absl::OkStatus() : Flush();
}

absl::Status OutputFile::Flush() {
  absl::string_view left = buffer_;
  while (!left.empty()) {
    const ssize_t written = write(fd_, left.data(), left.size());
    if (written < 0 && errno == EINTR) continue;
    if (written < 0) return Failed();
    left.remove_prefix(written);
  }
  buffer_.clear();
  return absl::OkStatus();
}

absl::Status OutputFile::Finish() {
  OARLOCK_RETURN_IF_ERROR(Flush());
  // NFS tells only now that the disk is full.
  if (close(std::exchange(fd_, -1)) != 0) return Failed();
  if (target_.empty()) return absl::OkStatus();
  if (rename(temporary_.c_str(), target_.c_str()) != 0) return Failed();
  temporary_.clear();
  return absl::OkStatus();
}

absl::Status OutputFile::SyncAndFinish() {
  OARLOCK_RETURN_IF_ERROR(Flush());
  // Pipes cannot.
  if (fdatasync(fd_) != 0 && errno != EINVAL && errno != EROFS) return Failed();
  return Finish();
}

absl::Status OutputFile::Failed() const {
  return absl::ErrnoToStatus(errno, absl::StrCat("cannot write ", name_));
}

void OutputFile::Close() {
  if (fd_ >= 0) close(std::exchange(fd_, -1));
  if (!temporary_.empty()) unlink(temporary_.c_str());
}

absl::Status CheckNotAnInput(const std::string& output,
                             const std::vector<std::string>& inputs) {
  struct stat written;
  if (output == "-" || stat(output.c_str(), &written) != 0 ||
      !S_ISREG(written.st_mode)) {
    return absl::OkStatus();
  }
  for (const std::string& input : inputs) {
    struct stat read;
    if (stat(input.c_str(), &read) == 0 && read.st_dev == written.st_dev &&
        read.st_ino == written.st_ino) {
      return absl::InvalidArgumentError(absl::StrCat(
          "the output '", output, "' is the input '", input,
          "', which would be lost; name another file for the output"));
    }
  }
  return absl::OkStatus();
}

int FinishStandardOutput(const char* program, int exit_code) {
  errno = 0;
  const bool failed = std::fflush(stdout) != 0 || std::ferror(stdout) != 0;
  if (!failed) return exit_code;
  std::fprintf(
      stderr, "%s: cannot write to standard output%s%s\n", program,
      errno == 0 ? "" : ": ",
      errno == 0 ? "" : std::generic_category().message(errno).c_str());
  return exit_code == 0 ? 1 : exit_code;
}

}  // namespace oarlock
