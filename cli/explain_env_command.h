// `oarlock explain-env`: what a process with this environment would become.

#ifndef OARLOCK_CLI_EXPLAIN_ENV_COMMAND_H_
#define OARLOCK_CLI_EXPLAIN_ENV_COMMAND_H_

namespace oarlock::flags {
struct CommandText;
}  // namespace oarlock::flags

namespace oarlock::cli {

// The whole program's words. Prints the role and why, and
// returns 0; for half a configuration prints the sentence and returns 2.
int RunExplainEnv(int argc, char** argv);
// Its flags, for manual and completion.
flags::CommandText DescribeExplainEnv();

}  // namespace oarlock::cli

#endif  // OARLOCK_CLI_EXPLAIN_ENV_COMMAND_H_
