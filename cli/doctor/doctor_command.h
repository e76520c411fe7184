// `oarlock doctor`: whether this machine is fit for jobs.

#ifndef OARLOCK_CLI_DOCTOR_DOCTOR_COMMAND_H_
#define OARLOCK_CLI_DOCTOR_DOCTOR_COMMAND_H_

#include "base/clock.h"

namespace oarlock::flags {
struct CommandText;
}  // namespace oarlock::flags

namespace oarlock::cli {

// The whole program's words. Prints a line for each subject, with what is wrong
// and what to do. Returns 0; 1 when something is bad, so that jobs would fail;
// 2 for a wrong command line. Changes nothing.
int RunDoctor(int argc, char** argv, const Clocks& clocks);
// Its flags, for manual and completion.
flags::CommandText DescribeDoctor();

}  // namespace oarlock::cli

#endif  // OARLOCK_CLI_DOCTOR_DOCTOR_COMMAND_H_
