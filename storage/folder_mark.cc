#include "storage/folder_mark.h"

#include <fcntl.h>
#include <unistd.h>

#include <cerrno>
#include <filesystem>
#include <random>
#include <system_error>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"

namespace oarlock::storage {
namespace {

constexpr char kPrefix[] = "mark-";
// Where it lies, as what servers work with does: other files beside checkpoints
// are somebody else's (storage/checkpoint_dir.h).
constexpr char kFolder[] = "/store/";

std::string MarkName(uint64_t mark) {
  return absl::StrFormat("%s%016x", kPrefix, mark);
}

}  // namespace

absl::StatusOr<uint64_t> WriteFolderMark(const std::string& folder) {
  std::error_code none;
  const std::string store = absl::StrCat(folder, kFolder);
  std::filesystem::create_directories(store, none);
  for (const auto& entry : std::filesystem::directory_iterator(store, none)) {
    if (absl::StartsWith(entry.path().filename().string(), kPrefix)) {
      std::filesystem::remove(entry.path(), none);
    }
  }
  std::random_device random;
  const uint64_t mark = (uint64_t{random()} << 32 | random()) | 1;
  const std::string path = absl::StrCat(store, MarkName(mark));
  const int fd =
      open(path.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0644);
  if (fd < 0) {
    return absl::ErrnoToStatus(errno, absl::StrCat("cannot write ", path));
  }
  close(fd);
  return mark;
}

absl::Status CheckFolderMark(const std::string& own, const std::string& theirs,
                             uint64_t mark) {
  if (mark == 0) return absl::OkStatus();
  if (own.empty()) {
    return absl::FailedPreconditionError(
        absl::StrCat("server 0 has --checkpoint_dir ", theirs,
                     ", and this server has none; give all servers the same"));
  }
  std::error_code none;
  if (std::filesystem::exists(absl::StrCat(own, kFolder, MarkName(mark)),
                              none)) {
    return absl::OkStatus();
  }
  return absl::FailedPreconditionError(absl::StrCat(
      "server 0 has made ", MarkName(mark), " in its --checkpoint_dir ", theirs,
      ", and this server does not find it in its own, ", own,
      "; all servers must see the same folder: mount one for all of them, and "
      "give all the same path"));
}

}  // namespace oarlock::storage
