// What `oarlock` can do.

#ifndef OARLOCK_CLI_COMMANDS_H_
#define OARLOCK_CLI_COMMANDS_H_

#include "absl/types/span.h"

namespace oarlock {

struct Command {
  const char* name;
  // Takes main's words, of which the second chose it; returns the exit code.
  int (*run)(int argc, char** argv);
  // For `oarlock --help`.
  const char* what;
};

// In the order of `oarlock --help`.
absl::Span<const Command> Commands();

}  // namespace oarlock

#endif  // OARLOCK_CLI_COMMANDS_H_
