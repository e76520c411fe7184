// `oarlock generate criteo`: data to try things on.

#ifndef OARLOCK_CLI_GENERATE_COMMAND_H_
#define OARLOCK_CLI_GENERATE_COMMAND_H_

#include "base/clock.h"

namespace oarlock::flags {
struct CommandText;
}  // namespace oarlock::flags

namespace oarlock::cli {

// `argv` is that of main; argv[1] is "generate". Returns the exit code.
int RunGenerate(int argc, char** argv, const Clocks& clocks);
// Its flags, for manual and completion.
flags::CommandText DescribeGenerate();

}  // namespace oarlock::cli

#endif  // OARLOCK_CLI_GENERATE_COMMAND_H_
