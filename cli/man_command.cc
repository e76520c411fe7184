#include "cli/man_command.h"

#include <cstdio>
#include <optional>

#include "absl/status/statusor.h"
#include "base/process/version.h"
#include "cli/commands.h"
#include "cli/text/man_page.h"
#include "flags/command_line.h"

namespace oarlock {
namespace {

CommandSyntax Syntax() {
  return {
      .name = "oarlock man",
      .description = "Prints the manual, oarlock(1), as man reads it.",
      .examples = "  oarlock man | man -l -\n",
  };
}

}  // namespace

CommandText DescribeMan() { return DescribeCommand(Syntax(), {}); }

int RunMan(int argc, char** argv) {
  const CommandSyntax syntax = Syntax();
  const absl::StatusOr<ParsedCommandLine> parsed =
      ParseCommandLine(syntax, Words(argc, argv, 2), {});
  if (const std::optional<int> exit_code = FinishEarly(syntax, parsed)) {
    return *exit_code;
  }
  std::fputs(ManPage(DescribeCommands(), kOarlockVersion).c_str(), stdout);
  return 0;
}

}  // namespace oarlock
