// `oarlock infer`: scores of files with a trained model.

#ifndef OARLOCK_CLI_INFER_COMMAND_H_
#define OARLOCK_CLI_INFER_COMMAND_H_

#include "base/clock.h"

namespace oarlock::flags {
struct CommandText;
}  // namespace oarlock::flags

namespace oarlock::cli {

// The process's exit code.
int RunInfer(int argc, char** argv, const Clocks& clocks);
// Its flags, for manual and completion.
flags::CommandText DescribeInfer();

}  // namespace oarlock::cli

#endif  // OARLOCK_CLI_INFER_COMMAND_H_
