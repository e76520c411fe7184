// The manual of the whole program.

#ifndef OARLOCK_CLI_TEXT_MAN_PAGE_H_
#define OARLOCK_CLI_TEXT_MAN_PAGE_H_

#include <string>

#include "absl/types/span.h"
#include "flags/command_line.h"

namespace oarlock::cli {

// oarlock(1), in roff with the macros of man(7): what `--help` of the program
// and of each command says. The same bytes whenever it is made.
std::string ManPage(absl::Span<const flags::CommandText> commands,
                    const std::string& version);

}  // namespace oarlock::cli

#endif  // OARLOCK_CLI_TEXT_MAN_PAGE_H_
