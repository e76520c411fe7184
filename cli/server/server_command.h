// `oarlock server`: one server of a job.

#ifndef OARLOCK_CLI_SERVER_COMMAND_H_
#define OARLOCK_CLI_SERVER_COMMAND_H_

#include <string>
#include <vector>

#include "base/clock.h"

namespace oarlock::flags {
struct CommandText;
}  // namespace oarlock::flags

namespace oarlock::cli {

// `argv` is that of main; argv[1] is "server". Returns the exit code.
int RunServer(int argc, char** argv, const Clocks& clocks);
// Its flags, for manual and completion.
flags::CommandText DescribeServer();

// The flags of a job that are a server's.
const std::vector<std::string>& ServerFlags();

}  // namespace oarlock::cli

#endif  // OARLOCK_CLI_SERVER_COMMAND_H_
