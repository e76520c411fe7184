#include "worker/data/input_file.h"

#include <utility>

#include "base/status_macros.h"
#include "worker/data/compressed_source.h"
#include "worker/data/pipe_source.h"

namespace oarlock {

bool CanSeek(const DataOptions& options, const std::string& path) {
  return options.pipe_command.empty() &&
         CompressionOf(path) == Compression::kNone;
}

absl::StatusOr<std::unique_ptr<ByteSource>> OpenInputBytes(
    const DataOptions& options, const std::string& path) {
  // The command gets the file as it is.
  return options.pipe_command.empty() ? OpenDecompressed(path)
                                      : OpenPipe(options.pipe_command, path);
}

absl::StatusOr<std::unique_ptr<LineReader>> OpenInput(
    const DataOptions& options, const std::string& path) {
  OARLOCK_ASSIGN_OR_RETURN(std::unique_ptr<ByteSource> bytes,
                           OpenInputBytes(options, path));
  return std::make_unique<LineReader>(path, std::move(bytes));
}

}  // namespace oarlock
