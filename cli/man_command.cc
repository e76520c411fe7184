#include "cli/man_command.h"

#include <cstdio>
#include <optional>

#include "absl/status/statusor.h"
#include "base/process/version.h"
#include "cli/commands.h"
#include "cli/text/man_page.h"
#include "flags/command_line.h"

namespace oarlock::cli {
namespace {

flags::CommandSyntax Syntax() {
  return {
      .name = "oarlock man",
      .description = "Prints the manual, oarlock(1), as man reads it.",
      .examples = "  oarlock man | man -l -\n",
  };
}

}  // namespace

flags::CommandText DescribeMan() {
  return flags::DescribeCommand(Syntax(), {});
}

int RunMan(int argc, char** argv) {
  const flags::CommandSyntax syntax = Syntax();
  const absl::StatusOr<flags::ParsedCommandLine> parsed =
      flags::ParseCommandLine(syntax, flags::Words(argc, argv, 2), {});
  if (const std::optional<int> exit_code = flags::FinishEarly(syntax, parsed)) {
    return *exit_code;
  }
  std::fputs(ManPage(DescribeCommands(), kOarlockVersion).c_str(), stdout);
  return 0;
}

}  // namespace oarlock::cli
