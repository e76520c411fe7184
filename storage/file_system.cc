#include "storage/file_system.h"

#include <rocksdb/env.h>
#include <rocksdb/slice.h>

#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"
#include "base/status_macros.h"
#include "storage/rocksdb_status.h"

namespace oarlock::storage {
namespace {

class EnvAppendedFile final : public AppendedFile {
 public:
  EnvAppendedFile(std::unique_ptr<rocksdb::WritableFile> file, std::string path)
      : file_(std::move(file)), path_(std::move(path)) {}

  absl::Status Append(absl::string_view bytes) override {
    return FromRocksDb(file_->Append({bytes.data(), bytes.size()}), "write",
                       path_);
  }
  absl::Status Sync() override {
    return FromRocksDb(file_->Sync(), "sync", path_);
  }
  absl::Status Close() override {
    return FromRocksDb(file_->Close(), "close", path_);
  }

 private:
  const std::unique_ptr<rocksdb::WritableFile> file_;
  const std::string path_;
};

class EnvSequentialFile final : public SequentialFile {
 public:
  EnvSequentialFile(std::unique_ptr<rocksdb::RandomAccessFile> file,
                    std::string path)
      : file_(std::move(file)), path_(std::move(path)) {}

  absl::StatusOr<size_t> Read(absl::Span<char> buffer) override {
    // The disk goes on while the caller looks at what it got. Systems that
    // cannot read ahead are only slower.
    if (buffer.size() >= kReadAheadFrom) {
      file_->Prefetch(offset_ + buffer.size(), buffer.size())
          .PermitUncheckedError();
    }
    size_t done = 0;
    while (done < buffer.size()) {
      char* const to = buffer.data() + done;
      rocksdb::Slice part;
      OARLOCK_RETURN_IF_ERROR(
          FromRocksDb(file_->Read(offset_, buffer.size() - done, &part, to),
                      "read", path_));
      if (part.empty()) break;
      if (part.data() != to) std::copy_n(part.data(), part.size(), to);
      done += part.size();
      offset_ += part.size();
    }
    return done;
  }

 private:
  static constexpr size_t kReadAheadFrom = 256 << 10;

  const std::unique_ptr<rocksdb::RandomAccessFile> file_;
  const std::string path_;
  uint64_t offset_ = 0;
};

std::string FolderAbove(const std::string& path) {
  const size_t end = path.find_last_not_of('/');
  const size_t slash =
      end == std::string::npos ? end : path.find_last_of('/', end);
  if (slash == std::string::npos) return path.starts_with('/') ? "/" : ".";
  const size_t last = path.find_last_not_of('/', slash);
  return last == std::string::npos ? "/" : path.substr(0, last + 1);
}

}  // namespace

FileSystem* FileSystem::Real() {
  static FileSystem real(rocksdb::Env::Default());
  return &real;
}

absl::StatusOr<std::unique_ptr<AppendedFile>> FileSystem::CreateFile(
    const std::string& path) {
  std::unique_ptr<rocksdb::WritableFile> file;
  OARLOCK_RETURN_IF_ERROR(FromRocksDb(
      env_->NewWritableFile(path, &file, rocksdb::EnvOptions()), "make", path));
  return std::make_unique<EnvAppendedFile>(std::move(file), path);
}

absl::StatusOr<std::unique_ptr<AppendedFile>> FileSystem::OpenToAppend(
    const std::string& path) {
  OARLOCK_RETURN_IF_ERROR(
      FromRocksDb(env_->FileExists(path), "append to", path));
  std::unique_ptr<rocksdb::WritableFile> file;
  OARLOCK_RETURN_IF_ERROR(
      FromRocksDb(env_->ReopenWritableFile(path, &file, rocksdb::EnvOptions()),
                  "append to", path));
  return std::make_unique<EnvAppendedFile>(std::move(file), path);
}

absl::StatusOr<std::unique_ptr<SequentialFile>> FileSystem::OpenToRead(
    const std::string& path) {
  std::unique_ptr<rocksdb::RandomAccessFile> file;
  OARLOCK_RETURN_IF_ERROR(
      FromRocksDb(env_->NewRandomAccessFile(path, &file, rocksdb::EnvOptions()),
                  "read", path));
  return std::make_unique<EnvSequentialFile>(std::move(file), path);
}

absl::StatusOr<std::string> FileSystem::ReadFile(const std::string& path,
                                                 uint64_t max_bytes) {
  OARLOCK_ASSIGN_OR_RETURN(const uint64_t bytes, FileBytes(path));
  if (bytes > max_bytes) {
    return absl::ResourceExhaustedError(
        absl::StrCat(path, " has ", bytes, " bytes; at most ", max_bytes,
                     " are read; name another file"));
  }
  OARLOCK_ASSIGN_OR_RETURN(const std::unique_ptr<SequentialFile> file,
                           OpenToRead(path));
  std::string contents(bytes, '\0');
  OARLOCK_ASSIGN_OR_RETURN(const size_t num_read,
                           file->Read(absl::MakeSpan(contents)));
  contents.resize(num_read);
  return contents;
}

absl::StatusOr<uint64_t> FileSystem::FileBytes(const std::string& path) {
  uint64_t bytes = 0;
  OARLOCK_RETURN_IF_ERROR(
      FromRocksDb(env_->GetFileSize(path, &bytes), "find", path));
  return bytes;
}

absl::Status FileSystem::Truncate(const std::string& path, uint64_t bytes) {
  // Of the open file: the machine's rocksdb::Env has no Truncate of a path.
  std::unique_ptr<rocksdb::WritableFile> file;
  OARLOCK_RETURN_IF_ERROR(
      FromRocksDb(env_->FileExists(path), "truncate", path));
  OARLOCK_RETURN_IF_ERROR(
      FromRocksDb(env_->ReopenWritableFile(path, &file, rocksdb::EnvOptions()),
                  "truncate", path));
  OARLOCK_RETURN_IF_ERROR(FromRocksDb(file->Truncate(bytes), "truncate", path));
  return FromRocksDb(file->Close(), "truncate", path);
}

absl::Status FileSystem::Rename(const std::string& from,
                                const std::string& to) {
  return FromRocksDb(env_->RenameFile(from, to), "rename",
                     absl::StrCat(from, " to ", to));
}

absl::Status FileSystem::RemoveFile(const std::string& path) {
  return FromRocksDb(env_->DeleteFile(path), "remove", path);
}

absl::StatusOr<bool> FileSystem::Exists(const std::string& path) {
  const rocksdb::Status status = env_->FileExists(path);
  if (status.IsNotFound() || status.IsPathNotFound()) return false;
  OARLOCK_RETURN_IF_ERROR(FromRocksDb(status, "find", path));
  return true;
}

absl::StatusOr<std::vector<std::string>> FileSystem::List(
    const std::string& folder) {
  std::vector<std::string> names;
  OARLOCK_RETURN_IF_ERROR(
      FromRocksDb(env_->GetChildren(folder, &names), "list", folder));
  std::erase_if(names, [](const std::string& name) {
    return name == "." || name == "..";
  });
  std::sort(names.begin(), names.end());
  return names;
}

absl::StatusOr<bool> FileSystem::IsFolder(const std::string& path) {
  bool is_folder = false;
  OARLOCK_RETURN_IF_ERROR(
      FromRocksDb(env_->IsDirectory(path, &is_folder), "find", path));
  return is_folder;
}

absl::Status FileSystem::MakeFolders(const std::string& folder) {
  const std::string above = FolderAbove(folder);
  OARLOCK_ASSIGN_OR_RETURN(const bool exists, Exists(folder));
  if (exists) {
    OARLOCK_ASSIGN_OR_RETURN(const bool is_folder, IsFolder(folder));
    // Who made it may have died before it was synced.
    if (is_folder) return SyncFolder(above);
    return absl::FailedPreconditionError(absl::StrCat(
        folder, " is a file; it must be a folder or new; name another one"));
  }
  OARLOCK_RETURN_IF_ERROR(MakeFolders(above));
  OARLOCK_RETURN_IF_ERROR(
      FromRocksDb(env_->CreateDirIfMissing(folder), "make", folder));
  return SyncFolder(above);
}

absl::Status FileSystem::SyncFolder(const std::string& folder) {
  std::unique_ptr<rocksdb::Directory> directory;
  OARLOCK_RETURN_IF_ERROR(
      FromRocksDb(env_->NewDirectory(folder, &directory), "open", folder));
  return FromRocksDb(directory->Fsync(), "sync", folder);
}

absl::Status FileSystem::RemoveTree(const std::string& folder) {
  OARLOCK_ASSIGN_OR_RETURN(const bool exists, Exists(folder));
  if (!exists) return absl::OkStatus();
  OARLOCK_ASSIGN_OR_RETURN(const std::vector<std::string> names, List(folder));
  for (const std::string& name : names) {
    const std::string path = absl::StrCat(folder, "/", name);
    OARLOCK_ASSIGN_OR_RETURN(const bool is_folder, IsFolder(path));
    OARLOCK_RETURN_IF_ERROR(is_folder ? RemoveTree(path) : RemoveFile(path));
  }
  return FromRocksDb(env_->DeleteDir(folder), "remove", folder);
}

absl::Status ReplaceFile(FileSystem* files, const std::string& path,
                         absl::string_view bytes) {
  const std::string temporary = absl::StrCat(path, ".tmp");
  {
    OARLOCK_ASSIGN_OR_RETURN(const std::unique_ptr<AppendedFile> file,
                             files->CreateFile(temporary));
    OARLOCK_RETURN_IF_ERROR(file->Append(bytes));
    OARLOCK_RETURN_IF_ERROR(file->Sync());
    OARLOCK_RETURN_IF_ERROR(file->Close());
  }
  OARLOCK_RETURN_IF_ERROR(files->Rename(temporary, path));
  return files->SyncFolder(FolderAbove(path));
}

}  // namespace oarlock::storage
