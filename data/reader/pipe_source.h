// What a shell command makes of a file: the user's own reader.

#ifndef OARLOCK_DATA_READER_PIPE_SOURCE_H_
#define OARLOCK_DATA_READER_PIPE_SOURCE_H_

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
// process group of its own; it shares our standard error. The source's bytes
// are the command's standard output. At their end the command's exit status is
// taken: another than 0, a signal, or none within kPipeExitWait is
// FailedPrecondition naming file, command and status. At its end, and where
// the source is closed before, the whole group is killed; nothing is left, no
// zombie either. So it is when this process dies, of SIGKILL too. `clock`
// outlives the source.
absl::StatusOr<std::unique_ptr<ByteSource>> OpenPipe(const std::string& command,
                                                     const std::string& path,
                                                     const Clock& clock);

}  // namespace oarlock::data

#endif  // OARLOCK_DATA_READER_PIPE_SOURCE_H_
