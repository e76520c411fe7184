// Command lines whose flags are the fields of protobuf messages.
//
//   CommandSyntax syntax{.name = "oarlock train", ...};
//   v1::JobConfig config;
//   absl::StatusOr<ParsedCommandLine> parsed =
//       ParseCommandLine(syntax, args, {{&config}});
//   if (std::optional<int> exit_code = FinishEarly(syntax, parsed)) {
//     return *exit_code;
//   }
//
// Accepted are --name value, --name=value, dashes for underscores, aliases,
// --flag and --flag true for booleans, comma-separated lists, --help and -h.
// The last of a repeated flag counts. A flag that two messages have is set in
// both. With `takes_config`, -c or --config FILE, where every flag may stand as
// a field, is read before any flag is set, so flags override the file.

#ifndef OARLOCK_FLAGS_COMMAND_LINE_H_
#define OARLOCK_FLAGS_COMMAND_LINE_H_

#include <google/protobuf/message.h>

#include <optional>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/types/span.h"

namespace oarlock::flags {

// What a wrong command line exits with.
inline constexpr int kUsageExitCode = 2;

// What may follow the flags.
enum class Positionals {
  kNone,
  // Words anywhere between the flags.
  kAny,
  // A program: from the first word on, everything belongs to it.
  kProgram,
};

struct CommandSyntax {
  // "oarlock train".
  std::string name;
  // One sentence.
  std::string description;
  // Whole command lines with their comments; --help ends with them.
  std::string examples = {};
  Positionals positionals = Positionals::kNone;
  // "PROGRAM [ARGS...]", for --help.
  std::string positional_names = {};
  // All that the first of them may be, for completion; empty: anything.
  std::vector<std::string> first_words = {};
  bool takes_config = false;
};

// A message whose fields are flags.
struct FlagSource {
  google::protobuf::Message* message = nullptr;
  // The fields that are flags here; empty: all that carry the option.
  std::vector<std::string> only = {};
};

// A flag as help, manual and completion tell of it.
struct FlagText {
  std::string name;
  std::vector<std::string> aliases;
  // What stands for its value: "N", "TEXT", "X,Y,..."; empty: a boolean.
  std::string value;
  std::string group;
  // One sentence, and in brackets its default and what is legal.
  std::string help;
  // The only legal values, where they are words.
  std::vector<std::string> choices;
};

struct CommandText {
  CommandSyntax syntax;
  // Groups together, in the order in which they first appear; the last group,
  // "Other", has help and config.
  std::vector<FlagText> flags;
};

struct ParsedCommandLine {
  // The text that --help asked for; nothing was parsed or set then.
  std::optional<std::string> help;
  std::vector<std::string> positionals;
};

// Parses `args` (without the program's and the command's name) into the
// messages, and checks them. InvalidArgument: one sentence.
absl::StatusOr<ParsedCommandLine> ParseCommandLine(
    const CommandSyntax& syntax, absl::Span<const std::string> args,
    absl::Span<const FlagSource> sources);

// What there is to tell of a command. Defaults are what the messages say now,
// so a program may have its own.
CommandText DescribeCommand(const CommandSyntax& syntax,
                            absl::Span<const FlagSource> sources);

// What --help prints.
std::string HelpText(const CommandSyntax& syntax,
                     absl::Span<const FlagSource> sources);

// Prints help to standard output, or the error to standard error, and returns
// the exit code; nullopt when the command should run.
std::optional<int> FinishEarly(const CommandSyntax& syntax,
                               const absl::StatusOr<ParsedCommandLine>& parsed);

// Prints "oarlock train: <message>" in one line to standard error and returns
// kUsageExitCode.
int ReportUsageError(const CommandSyntax& syntax, const absl::Status& status);

// The words of main() after the first `skip`.
std::vector<std::string> Words(int argc, char* const* argv, int skip);

}  // namespace oarlock::flags

#endif  // OARLOCK_FLAGS_COMMAND_LINE_H_
