// `oarlock version`: which program this is, for a report of a bug.

#ifndef OARLOCK_CLI_VERSION_COMMAND_H_
#define OARLOCK_CLI_VERSION_COMMAND_H_

namespace oarlock::flags {
struct CommandText;
}  // namespace oarlock::flags

namespace oarlock::cli {

// The whole program's words; the first may be --version as well. Prints the
// version, and what this program speaks, reads and was built with; returns 0,
// or 2 for words that it does not know.
int RunVersion(int argc, char** argv);
// Its flags, for manual and completion.
flags::CommandText DescribeVersion();

}  // namespace oarlock::cli

#endif  // OARLOCK_CLI_VERSION_COMMAND_H_
