// `oarlock checkpoint inspect | verify | diff | export`: looks at checkpoints
// on disk, without a job.

#ifndef OARLOCK_CLI_CHECKPOINT_CHECKPOINT_COMMAND_H_
#define OARLOCK_CLI_CHECKPOINT_CHECKPOINT_COMMAND_H_

#include "base/clock.h"

namespace oarlock::flags {
struct CommandText;
}  // namespace oarlock::flags

namespace oarlock::cli {

// `argv` is that of main; argv[1] is "checkpoint". Returns the exit code: 0
// sound or equal, 1 damaged, different or not there, 2 for a wrong command
// line.
int RunCheckpoint(int argc, char** argv, const Clocks& clocks);
// Its flags, for manual and completion.
flags::CommandText DescribeCheckpoint();

}  // namespace oarlock::cli

#endif  // OARLOCK_CLI_CHECKPOINT_CHECKPOINT_COMMAND_H_
