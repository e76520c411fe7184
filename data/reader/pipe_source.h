// Reads the output of a shell command of the user, whose input is a file.

#ifndef OARLOCK_DATA_READER_PIPE_SOURCE_H_
#define OARLOCK_DATA_READER_PIPE_SOURCE_H_

#include <functional>
#include <memory>
#include <string>

#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "base/clock.h"
#include "data/reader/byte_source.h"

namespace oarlock::data {

// A command that has closed its output must end within this time.
inline constexpr absl::Duration kPipeExitWait = absl::Seconds(60);

// Starts `sh -c command` with the file `path` as its standard input, in a
// process group of its own. The command shares the standard error of this
// process. The source's bytes are the command's standard output. At their end,
// Read checks the command's exit status. A status other than 0, a signal, or no
// exit within kPipeExitWait is FailedPrecondition, which names file, command
// and status. At the end, or when the source is closed before, the whole group
// is killed and no process remains, not even a zombie. The group is also killed
// when this process dies, even by SIGKILL. `while_silent`: as in DataOptions.
// `clock` outlives the source.
absl::StatusOr<std::unique_ptr<ByteSource>> OpenPipe(
    const std::string& command, const std::string& path, const Clock& clock,
    std::function<absl::Status(absl::Duration silent)> while_silent = nullptr);

}  // namespace oarlock::data

#endif  // OARLOCK_DATA_READER_PIPE_SOURCE_H_
