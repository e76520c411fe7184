// `oarlock train`: the ready-made training program.

#ifndef OARLOCK_CLI_TRAIN_TRAIN_COMMAND_H_
#define OARLOCK_CLI_TRAIN_TRAIN_COMMAND_H_

#include "base/clock.h"

namespace oarlock::flags {
struct CommandText;
}  // namespace oarlock::flags

namespace oarlock::cli {

// `argv` is that of main; argv[1] is "train". Returns the exit code.
int RunTrain(int argc, char** argv, const Clocks& clocks);
// Its flags, for manual and completion.
flags::CommandText DescribeTrain();

}  // namespace oarlock::cli

#endif  // OARLOCK_CLI_TRAIN_TRAIN_COMMAND_H_
