// What `oarlock` can do.

#ifndef OARLOCK_CLI_COMMANDS_H_
#define OARLOCK_CLI_COMMANDS_H_

#include <vector>

#include "absl/types/span.h"
#include "base/clock.h"

namespace oarlock::flags {
struct CommandText;
}  // namespace oarlock::flags

namespace oarlock::cli {

struct Command {
  const char* name;
  // Takes main's words, of which the second chose it; returns the exit code.
  int (*run)(int argc, char** argv, const Clocks& clocks);
  // For `oarlock --help`.
  const char* what;
  // Its flags and examples.
  flags::CommandText (*describe)();
};

// In the order of `oarlock --help`.
absl::Span<const Command> Commands();
// What there is to tell of each, in the same order.
std::vector<flags::CommandText> DescribeCommands();

}  // namespace oarlock::cli

#endif  // OARLOCK_CLI_COMMANDS_H_
