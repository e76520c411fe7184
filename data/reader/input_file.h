// Opens an input file as lines: decompressed, or piped through a command.

#ifndef OARLOCK_DATA_READER_INPUT_FILE_H_
#define OARLOCK_DATA_READER_INPUT_FILE_H_

#include <memory>
#include <string>

#include "absl/status/statusor.h"
#include "base/clock.h"
#include "data/data_options.h"
#include "data/reader/byte_source.h"
#include "data/reader/line_reader.h"

namespace oarlock::data {

// Whether a line can be read at its offset in the file: neither compressed nor
// piped through a command.
bool CanSeek(const DataOptions& options, const std::string& path);

// As OpenDecompressed, or, with options.pipe_command, as OpenPipe.
absl::StatusOr<std::unique_ptr<ByteSource>> OpenInputBytes(
    const DataOptions& options, const std::string& path);
absl::StatusOr<std::unique_ptr<LineReader>> OpenInput(
    const DataOptions& options, const std::string& path);

// OK when `path` can be opened and its first bytes are text (CheckText). With a
// command always OK, since only running the command would show an error.
absl::Status CheckInput(const DataOptions& options, const std::string& path);

// Waits, at most a minute, while the folder of `path` does not exist, as when a
// mount disappears for a time.
void AwaitFolderOf(const std::string& path, const Clock& clock);

}  // namespace oarlock::data

#endif  // OARLOCK_DATA_READER_INPUT_FILE_H_
