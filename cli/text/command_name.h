// What a command is called behind the program's name.

#ifndef OARLOCK_CLI_TEXT_COMMAND_NAME_H_
#define OARLOCK_CLI_TEXT_COMMAND_NAME_H_

#include <string>

#include "flags/command_line.h"

namespace oarlock::cli {

// "train" of "oarlock train".
inline std::string CommandName(const flags::CommandText& command) {
  return command.syntax.name.substr(command.syntax.name.rfind(' ') + 1);
}

}  // namespace oarlock::cli

#endif  // OARLOCK_CLI_TEXT_COMMAND_NAME_H_
