// A stream of bytes to parse: a file, or the output of a command that reads it.

#ifndef OARLOCK_DATA_READER_BYTE_SOURCE_H_
#define OARLOCK_DATA_READER_BYTE_SOURCE_H_

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "base/process/file_descriptor.h"

namespace oarlock::data {

// Thread-compatible. Destroying it releases what it holds, at any point.
class ByteSource {
 public:
  virtual ~ByteSource() = default;
  // Writes up to `size` of the next bytes to `data` and returns how many: 0 at
  // the end. An error names the source.
  virtual absl::StatusOr<size_t> Read(char* data, size_t size) = 0;
  // The next Read starts `offset` bytes from the start. FailedPrecondition
  // where the source cannot do that.
  virtual absl::Status Seek(uint64_t offset) = 0;
};

// FailedPrecondition, which names `path`, when it is a named pipe, a socket or
// a device: reading from it may never return, and its bytes cannot be read
// twice. OK for everything else, even for a path that does not exist: opening
// it gives the error.
absl::Status CheckIsNoSpecialFile(const std::string& path);

// Opens `path`. NotFound, PermissionDenied or another code when it cannot be
// opened; also the errors of CheckIsNoSpecialFile.
absl::StatusOr<std::unique_ptr<ByteSource>> OpenFile(const std::string& path);

using oarlock::FileDescriptor;

// Opens `path` for reading. Errors as OpenFile.
absl::StatusOr<FileDescriptor> OpenForReading(const std::string& path);

// Calls read(2), again when a signal interrupts it. `what` names the source.
absl::StatusOr<size_t> ReadSome(const FileDescriptor& fd, char* data,
                                size_t size, const std::string& what);

}  // namespace oarlock::data

#endif  // OARLOCK_DATA_READER_BYTE_SOURCE_H_
