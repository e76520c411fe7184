// Completion of command lines in shells.

#ifndef OARLOCK_CLI_TEXT_COMPLETION_H_
#define OARLOCK_CLI_TEXT_COMPLETION_H_

#include <string>

#include "absl/types/span.h"
#include "flags/command_line.h"

namespace oarlock::cli {

// A script that teaches bash commands, flags and the values of flags that are
// words. It asks the program nothing.
std::string BashCompletion(absl::Span<const flags::CommandText> commands);
// The same for zsh, with sentences; for a file `_oarlock` on its fpath.
std::string ZshCompletion(absl::Span<const flags::CommandText> commands);

}  // namespace oarlock::cli

#endif  // OARLOCK_CLI_TEXT_COMPLETION_H_
