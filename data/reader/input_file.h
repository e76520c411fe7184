// A file of the input as lines: unpacked, or piped through a command.

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

// Whether its lines lie where they lie in the file.
bool CanSeek(const DataOptions& options, const std::string& path);

// As OpenDecompressed; through options.pipe_command as OpenPipe.
absl::StatusOr<std::unique_ptr<ByteSource>> OpenInputBytes(
    const DataOptions& options, const std::string& path);
absl::StatusOr<std::unique_ptr<LineReader>> OpenInput(
    const DataOptions& options, const std::string& path);

// OK when it can be opened and its first bytes are text (CheckText); through a
// command: always, since only running it would tell.
absl::Status CheckInput(const DataOptions& options, const std::string& path);

// Waits while the folder of `path` is not there, as when a mount comes and
// goes; at most a minute.
void AwaitFolderOf(const std::string& path, const Clock& clock);

}  // namespace oarlock::data

#endif  // OARLOCK_DATA_READER_INPUT_FILE_H_
