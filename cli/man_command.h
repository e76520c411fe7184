// `oarlock man`.

#ifndef OARLOCK_CLI_MAN_COMMAND_H_
#define OARLOCK_CLI_MAN_COMMAND_H_

namespace oarlock {

struct CommandText;

// The whole program's words. Prints the text and returns 0, or 2 for words that
// it does not know.
int RunMan(int argc, char** argv);
// Its flags, for manual and completion.
CommandText DescribeMan();

}  // namespace oarlock

#endif  // OARLOCK_CLI_MAN_COMMAND_H_
