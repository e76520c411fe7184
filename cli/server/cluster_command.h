// `oarlock cluster`: servers on this machine that stay, for a program that
// joins them.

#ifndef OARLOCK_CLI_CLUSTER_COMMAND_H_
#define OARLOCK_CLI_CLUSTER_COMMAND_H_

#include "base/clock.h"
#include "flags/command_line.h"

namespace oarlock::cli {

flags::CommandText DescribeCluster();

// argv[1] is the command. Returns the exit code.
int RunCluster(int argc, char** argv, const Clocks& clocks);

}  // namespace oarlock::cli

#endif  // OARLOCK_CLI_CLUSTER_COMMAND_H_
