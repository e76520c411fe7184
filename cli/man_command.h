// `oarlock man`.

#ifndef OARLOCK_CLI_MAN_COMMAND_H_
#define OARLOCK_CLI_MAN_COMMAND_H_

namespace oarlock::flags {
struct CommandText;
}  // namespace oarlock::flags

namespace oarlock::cli {

// The whole program's words. Prints the text and returns 0, or 2 for words that
// it does not know.
int RunMan(int argc, char** argv);
// Its flags, for manual and completion.
flags::CommandText DescribeMan();

}  // namespace oarlock::cli

#endif  // OARLOCK_CLI_MAN_COMMAND_H_
