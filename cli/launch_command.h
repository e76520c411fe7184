// `oarlock launch [flags] PROGRAM [args...]`: starts a program in the roles of
// a job.

#ifndef OARLOCK_CLI_LAUNCH_COMMAND_H_
#define OARLOCK_CLI_LAUNCH_COMMAND_H_

#include "base/clock.h"

namespace oarlock::flags {
struct CommandText;
}  // namespace oarlock::flags

namespace oarlock::cli {

// The whole program's words. Returns the exit code: 2 for a wrong
// command line, 1 when the nodes did not meet, else that of Launcher::Run or
// RunMultiNodeJob.
int RunLaunch(int argc, char** argv, const Clocks& clocks);
// Its flags, for manual and completion.
flags::CommandText DescribeLaunch();

}  // namespace oarlock::cli

#endif  // OARLOCK_CLI_LAUNCH_COMMAND_H_
