#include "cli/completion_command.h"

#include <cstdio>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "cli/commands.h"
#include "cli/text/completion.h"
#include "flags/command_line.h"

namespace oarlock::cli {
namespace {

flags::CommandSyntax Syntax() {
  return {
      .name = "oarlock completion",
      .description =
          "Prints a script that completes commands and flags in a shell.",
      .examples =
          "  # in ~/.bashrc\n"
          "  eval \"$(oarlock completion bash)\"\n"
          "  # a file of zsh's fpath\n"
          "  oarlock completion zsh > ~/.zfunc/_oarlock\n",
      .positionals = flags::Positionals::kAny,
      .positional_names = "bash|zsh",
      .first_words = {"bash", "zsh"},
  };
}

}  // namespace

flags::CommandText DescribeCompletion() {
  return flags::DescribeCommand(Syntax(), {});
}

int RunCompletion(int argc, char** argv) {
  const flags::CommandSyntax syntax = Syntax();
  const absl::StatusOr<flags::ParsedCommandLine> parsed =
      flags::ParseCommandLine(syntax, flags::Words(argc, argv, 2), {});
  if (const std::optional<int> exit_code = flags::FinishEarly(syntax, parsed)) {
    return *exit_code;
  }
  const std::vector<std::string>& words = parsed->positionals;
  if (words != std::vector<std::string>{"bash"} &&
      words != std::vector<std::string>{"zsh"}) {
    return flags::ReportUsageError(
        syntax, absl::InvalidArgumentError(
                    "say for which shell: oarlock completion bash, or oarlock "
                    "completion zsh"));
  }
  const std::vector<flags::CommandText> commands = DescribeCommands();
  std::fputs(
      (words[0] == "bash" ? BashCompletion(commands) : ZshCompletion(commands))
          .c_str(),
      stdout);
  return 0;
}

}  // namespace oarlock::cli
