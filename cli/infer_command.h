// `oarlock infer`: scores of files with a trained model.

#ifndef OARLOCK_CLI_INFER_COMMAND_H_
#define OARLOCK_CLI_INFER_COMMAND_H_

namespace oarlock {

// The process's exit code.
int RunInfer(int argc, char** argv);

}  // namespace oarlock

#endif  // OARLOCK_CLI_INFER_COMMAND_H_
