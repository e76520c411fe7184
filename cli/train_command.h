// `oarlock train`: the ready-made training program.

#ifndef OARLOCK_CLI_TRAIN_COMMAND_H_
#define OARLOCK_CLI_TRAIN_COMMAND_H_

namespace oarlock {

struct CommandText;

// `argv` is that of main; argv[1] is "train". Returns the exit code.
int RunTrain(int argc, char** argv);
// Its flags, for manual and completion.
CommandText DescribeTrain();

}  // namespace oarlock

#endif  // OARLOCK_CLI_TRAIN_COMMAND_H_
