// `oarlock ctl`: looks at a running job, evicts rows, or ends it.

#ifndef OARLOCK_CLI_CTL_CTL_COMMAND_H_
#define OARLOCK_CLI_CTL_CTL_COMMAND_H_

namespace oarlock::flags {
struct CommandText;
}  // namespace oarlock::flags

namespace oarlock::cli {

// `argv` is that of main; argv[1] is "ctl". Returns the exit code: 0, 1 when
// the server cannot be reached or refuses, 2 for a wrong command line.
int RunCtl(int argc, char** argv);
// Its flags, for manual and completion.
flags::CommandText DescribeCtl();

}  // namespace oarlock::cli

#endif  // OARLOCK_CLI_CTL_CTL_COMMAND_H_
