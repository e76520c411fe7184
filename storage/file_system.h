// Files of checkpoints and logs: the system's, or a test's that forgets what
// was not synced. RocksDB's databases and our own files go through the same
// rocksdb::Env.

#ifndef OARLOCK_STORAGE_FILE_SYSTEM_H_
#define OARLOCK_STORAGE_FILE_SYSTEM_H_

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/types/span.h"

namespace rocksdb {
class Env;
}

namespace oarlock::storage {

// A file that only grows. Not thread-safe, but for this: Sync may run beside
// Append, and covers what was appended before it began. Its end closes it,
// without telling what Close would have told.
class AppendedFile {
 public:
  virtual ~AppendedFile() = default;

  // When it returns, the bytes are with the system (one write for each call, no
  // buffer of our own) and survive the end of the process. After an error an
  // unknown part of them is there.
  virtual absl::Status Append(absl::string_view bytes) = 0;
  // All bytes so far survive the end of the system. That the file is there is
  // another matter: FileSystem::SyncFolder. After an error the bytes that were
  // not synced are lost to the caller, whatever a second call says.
  virtual absl::Status Sync() = 0;
  virtual absl::Status Close() = 0;
};

// A file from its beginning on. Not thread-safe.
class SequentialFile {
 public:
  virtual ~SequentialFile() = default;

  // The next bytes into `buffer`; how many. Fewer than there is room for only
  // at the end of the file, where further calls read 0.
  virtual absl::StatusOr<size_t> Read(absl::Span<char> buffer) = 0;
};

// Thread-safe. Errors name the path: NotFound, ResourceExhausted when the disk
// is full, Internal for other failures of the system.
class FileSystem {
 public:
  // The machine's.
  static FileSystem* Real();
  // `env` outlives it.
  explicit FileSystem(rocksdb::Env* env) : env_(env) {}
  FileSystem(const FileSystem&) = delete;
  FileSystem& operator=(const FileSystem&) = delete;

  // An empty file; one of that name that was there is gone.
  absl::StatusOr<std::unique_ptr<AppendedFile>> CreateFile(
      const std::string& path);
  // The end of a file that is there.
  absl::StatusOr<std::unique_ptr<AppendedFile>> OpenToAppend(
      const std::string& path);
  absl::StatusOr<std::unique_ptr<SequentialFile>> OpenToRead(
      const std::string& path);

  // ResourceExhausted when it has more than `max_bytes`.
  absl::StatusOr<std::string> ReadFile(const std::string& path,
                                       uint64_t max_bytes);
  absl::StatusOr<uint64_t> FileBytes(const std::string& path);
  // Drops what lies beyond `bytes`; not synced.
  absl::Status Truncate(const std::string& path, uint64_t bytes);
  // Over one of that name, at once: whoever opens `to` finds the old or the new
  // file, a crashed system too. Not synced.
  absl::Status Rename(const std::string& from, const std::string& to);
  absl::Status RemoveFile(const std::string& path);

  // Whether there is a file or folder; Internal when the system cannot tell.
  absl::StatusOr<bool> Exists(const std::string& path);
  // Names of what is in a folder, ascending, without "." and "..".
  absl::StatusOr<std::vector<std::string>> List(const std::string& folder);
  // Whether it is a folder. NotFound.
  absl::StatusOr<bool> IsFolder(const std::string& path);
  // Makes it and those above it; fine when it is there. OK: it survives the end
  // of the system, even if a process that died made it.
  absl::Status MakeFolders(const std::string& folder);
  // What was made, renamed or removed in it survives the end of the system.
  absl::Status SyncFolder(const std::string& folder);
  // With all that is in it; fine when there is none. Not synced.
  absl::Status RemoveTree(const std::string& folder);

  // For the libraries of storage/.
  rocksdb::Env* env() const { return env_; }

 private:
  rocksdb::Env* const env_;
};

// Makes `path` hold `bytes`, or stay what it was: written beside it as
// "<path>.tmp", synced, renamed, folder synced. OK: durable.
absl::Status ReplaceFile(FileSystem* files, const std::string& path,
                         absl::string_view bytes);

}  // namespace oarlock::storage

#endif  // OARLOCK_STORAGE_FILE_SYSTEM_H_
