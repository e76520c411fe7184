#include "cli/text/man_page.h"

#include "absl/strings/ascii.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_replace.h"
#include "absl/strings/str_split.h"

namespace oarlock::cli {
namespace {

// `text` as roff shows it; a dash is one that can be copied into a shell.
std::string Roff(const std::string& text) {
  std::string escaped =
      absl::StrReplaceAll(text, {{"\\", "\\e"}, {"-", "\\-"}, {"'", "\\(aq"}});
  // What begins a line with a dot is a request.
  return absl::StartsWith(escaped, ".") ? "\\&" + escaped : escaped;
}

void AppendFlag(const flags::FlagText& flag, std::string* page) {
  absl::StrAppend(page, ".TP\n\\fB", Roff("--" + flag.name), "\\fR");
  if (!flag.value.empty()) {
    absl::StrAppend(page, " \\fI", Roff(flag.value), "\\fR");
  }
  for (const std::string& alias : flag.aliases) {
    absl::StrAppend(page, ", \\fB", Roff("--" + alias), "\\fR");
  }
  absl::StrAppend(page, "\n", Roff(flag.help), "\n");
}

void AppendExamples(const std::string& examples, std::string* page) {
  absl::StrAppend(page, ".PP\n\\fBExamples\\fR\n.PP\n.nf\n");
  for (absl::string_view line :
       absl::StrSplit(absl::StripTrailingAsciiWhitespace(examples), '\n')) {
    absl::StrAppend(page, Roff(std::string(line)), "\n");
  }
  absl::StrAppend(page, ".fi\n");
}

void AppendCommand(const flags::CommandText& command, std::string* page) {
  const flags::CommandSyntax& syntax = command.syntax;
  absl::StrAppend(page, ".SS \"", Roff(syntax.name), "\"\n",
                  Roff(absl::StrReplaceAll(syntax.description, {{"\n", " "}})),
                  "\n.PP\n\\fB", Roff(syntax.name), "\\fR [flags] ",
                  Roff(syntax.positional_names), "\n");
  std::string group;
  for (const flags::FlagText& flag : command.flags) {
    if (flag.group != group) {
      absl::StrAppend(page, ".PP\n\\fB", Roff(flag.group), "\\fR\n");
    }
    group = flag.group;
    AppendFlag(flag, page);
  }
  if (!syntax.examples.empty()) AppendExamples(syntax.examples, page);
}

}  // namespace

std::string ManPage(absl::Span<const flags::CommandText> commands,
                    const std::string& version) {
  std::string page = absl::StrCat(
      ".TH OARLOCK 1 \"\" \"oarlock ", Roff(version), "\" \"Oarlock\"\n",
      // Flags are long words: lines are not stretched to the margin.
      ".ad l\n"
      ".nh\n"
      ".SH NAME\n"
      "oarlock \\- a parameter server for distributed training\n"
      ".SH SYNOPSIS\n"
      "\\fBoarlock\\fR \\fICOMMAND\\fR [flags]\n"
      ".SH DESCRIPTION\n"
      "Servers hold the parameters of a model, sparse tables of any size "
      "among them; workers read data, pull what they need, and push "
      "gradients. One program is every role of a job, and starts jobs.\n"
      ".SH COMMANDS\n");
  for (const flags::CommandText& command : commands)
    AppendCommand(command, &page);
  absl::StrAppend(
      &page,
      ".SH \"EXIT STATUS\"\n"
      "0: done. 1: it failed, and a line on standard error says why. 2: the "
      "command line or the environment is wrong. 128 and a signal's number: "
      "a process of the job was ended by that signal.\n");
  return page;
}

}  // namespace oarlock::cli
