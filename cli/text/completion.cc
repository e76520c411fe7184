#include "cli/text/completion.h"

#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/str_replace.h"
#include "cli/text/command_name.h"

namespace oarlock::cli {
namespace {

// `text` as one word of a shell.
std::string Quoted(const std::string& text) {
  return absl::StrCat("'", absl::StrReplaceAll(text, {{"'", "'\\''"}}), "'");
}

std::vector<std::string> Spellings(const flags::FlagText& flag) {
  std::vector<std::string> spellings = {"--" + flag.name};
  for (const std::string& alias : flag.aliases) {
    spellings.push_back("--" + alias);
  }
  return spellings;
}

std::string AllNames(absl::Span<const flags::CommandText> commands) {
  return absl::StrJoin(commands, " ",
                       [](std::string* out, const flags::CommandText& command) {
                         out->append(CommandName(command));
                       });
}

// "    train) flags='--model --seed'; words='' ;;"
std::string BashFlags(const flags::CommandText& command) {
  std::vector<std::string> flags;
  for (const flags::FlagText& flag : command.flags) {
    for (std::string& spelling : Spellings(flag)) {
      flags.push_back(std::move(spelling));
    }
  }
  return absl::StrCat("    ", CommandName(command),
                      ") flags=", Quoted(absl::StrJoin(flags, " ")), "; words=",
                      Quoted(absl::StrJoin(command.syntax.first_words, " ")),
                      " ;;\n");
}

// "    'train --mode') values='async sync' ;;"
std::string BashValues(const flags::CommandText& command) {
  std::string text;
  for (const flags::FlagText& flag : command.flags) {
    if (flag.choices.empty() && flag.value.empty()) continue;
    // What takes a value that nobody can guess is completed with files.
    const std::string values = flag.choices.empty()
                                   ? std::string(1, ' ')
                                   : absl::StrJoin(flag.choices, " ");
    for (const std::string& spelling : Spellings(flag)) {
      absl::StrAppend(&text, "    ",
                      Quoted(absl::StrCat(CommandName(command), " ", spelling)),
                      ") values=", Quoted(values), " ;;\n");
    }
  }
  return text;
}

// Of a specification of zsh's _arguments.
std::string ZshEscaped(const std::string& text) {
  return absl::StrReplaceAll(
      text, {{"\\", "\\\\"}, {"[", "\\["}, {"]", "\\]"}, {":", "\\:"}});
}

std::string ZshFlags(const flags::CommandText& command) {
  std::string text =
      absl::StrCat("    ", CommandName(command), ")\n", "      _arguments");
  for (const flags::FlagText& flag : command.flags) {
    for (const std::string& spelling : Spellings(flag)) {
      std::string spec =
          absl::StrCat(spelling, "[", ZshEscaped(flag.help), "]");
      if (!flag.value.empty()) {
        absl::StrAppend(
            &spec, ":", ZshEscaped(flag.value), ":",
            flag.choices.empty()
                ? "_files"
                : absl::StrCat("(", absl::StrJoin(flag.choices, " "), ")"));
      }
      absl::StrAppend(&text, " \\\n        ", Quoted(spec));
    }
  }
  const std::vector<std::string>& words = command.syntax.first_words;
  if (!words.empty()) {
    absl::StrAppend(
        &text, " \\\n        ",
        Quoted(absl::StrCat("1:word:(", absl::StrJoin(words, " "), ")")));
  }
  absl::StrAppend(&text, " \\\n        '*:file:_files' ;;\n");
  return text;
}

}  // namespace

std::string BashCompletion(absl::Span<const flags::CommandText> commands) {
  std::string text = absl::StrCat(
      "# Completion of oarlock for bash; `oarlock completion bash` wrote it.\n"
      "_oarlock() {\n"
      "  local word=${COMP_WORDS[COMP_CWORD]} flags='' words='' values=''\n"
      "  COMPREPLY=()\n"
      "  if [ \"$COMP_CWORD\" -eq 1 ]; then\n"
      "    COMPREPLY=($(compgen -W ",
      Quoted(AllNames(commands) + " --help --version"),
      " -- \"$word\"))\n"
      "    return\n"
      "  fi\n"
      "  case \"${COMP_WORDS[1]} ${COMP_WORDS[COMP_CWORD-1]}\" in\n");
  for (const flags::CommandText& command : commands)
    text += BashValues(command);
  absl::StrAppend(&text,
                  "  esac\n"
                  "  if [ -n \"$values\" ]; then\n"
                  "    COMPREPLY=($(compgen -W \"$values\" -- \"$word\"))\n"
                  "    return\n"
                  "  fi\n"
                  "  case \"${COMP_WORDS[1]}\" in\n");
  for (const flags::CommandText& command : commands) text += BashFlags(command);
  absl::StrAppend(&text,
                  "  esac\n"
                  "  case \"$word\" in\n"
                  "    -*) words=$flags ;;\n"
                  "    *) [ \"$COMP_CWORD\" -eq 2 ] || words='' ;;\n"
                  "  esac\n"
                  "  COMPREPLY=($(compgen -W \"$words\" -- \"$word\"))\n"
                  "}\n"
                  "# Where there is nothing to say: names of files.\n"
                  "complete -o default -F _oarlock oarlock\n");
  return text;
}

std::string ZshCompletion(absl::Span<const flags::CommandText> commands) {
  std::string text =
      "#compdef oarlock\n"
      "# Completion of oarlock for zsh; `oarlock completion zsh` wrote it.\n"
      "_oarlock() {\n"
      "  local -a commands\n"
      "  commands=(\n";
  for (const flags::CommandText& command : commands) {
    // _describe takes no brackets for special.
    absl::StrAppend(
        &text, "    ",
        Quoted(absl::StrCat(CommandName(command), ":",
                            absl::StrReplaceAll(command.syntax.description,
                                                {{"\n", " "}, {":", "\\:"}}))),
        "\n");
  }
  absl::StrAppend(&text,
                  "  )\n"
                  "  if (( CURRENT == 2 )); then\n"
                  "    _describe command commands\n"
                  "    return\n"
                  "  fi\n"
                  "  shift words\n"
                  "  (( CURRENT-- ))\n"
                  "  case $words[1] in\n");
  for (const flags::CommandText& command : commands) text += ZshFlags(command);
  absl::StrAppend(&text,
                  "  esac\n"
                  "}\n"
                  "# As a file of the fpath it is the function's body.\n"
                  "if [[ $funcstack[1] == _oarlock ]]; then\n"
                  "  _oarlock \"$@\"\n"
                  "else\n"
                  "  compdef _oarlock oarlock\n"
                  "fi\n");
  return text;
}

}  // namespace oarlock::cli
