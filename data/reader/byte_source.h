// A stream of bytes to parse: a file, or what a command makes of it.

#ifndef OARLOCK_DATA_READER_BYTE_SOURCE_H_
#define OARLOCK_DATA_READER_BYTE_SOURCE_H_

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"

namespace oarlock::data {

// Thread-compatible. Destroying it releases what it holds, at any point.
class ByteSource {
 public:
  virtual ~ByteSource() = default;
  // Fills up to `size` bytes at `data` with what comes next; how many, 0 at
  // the end. An error names the source.
  virtual absl::StatusOr<size_t> Read(char* data, size_t size) = 0;
  // The next Read starts `offset` bytes from the start. FailedPrecondition
  // where the source cannot do that.
  virtual absl::Status Seek(uint64_t offset) = 0;
};

// FailedPrecondition, naming it, when `path` is a named pipe, a socket or a
// device: to read one may wait for ever, and nothing can be read twice. OK for
// everything else, also for what is not there: opening that tells.
absl::Status CheckIsNoSpecialFile(const std::string& path);

// NotFound, PermissionDenied or another code when `path` cannot be opened; as
// CheckIsNoSpecialFile.
absl::StatusOr<std::unique_ptr<ByteSource>> OpenFile(const std::string& path);

// A file descriptor that closes itself.
class FileDescriptor {
 public:
  FileDescriptor() = default;
  explicit FileDescriptor(int fd) : fd_(fd) {}
  FileDescriptor(FileDescriptor&& other) noexcept : fd_(other.Release()) {}
  FileDescriptor& operator=(FileDescriptor&& other) noexcept;
  ~FileDescriptor() { Close(); }

  int get() const { return fd_; }
  bool valid() const { return fd_ >= 0; }
  int Release();
  void Close();

 private:
  int fd_ = -1;
};

// `path` opened for reading; as OpenFile.
absl::StatusOr<FileDescriptor> OpenForReading(const std::string& path);

// read(2), again when a signal interrupts it. `what` names the source.
absl::StatusOr<size_t> ReadSome(const FileDescriptor& fd, char* data,
                                size_t size, const std::string& what);

}  // namespace oarlock::data

#endif  // OARLOCK_DATA_READER_BYTE_SOURCE_H_
