#include "flags/command_line.h"

#include <CLI/CLI.hpp>
#include <algorithm>
#include <cstdio>
#include <map>
#include <memory>
#include <utility>

#include "absl/strings/ascii.h"
#include "absl/strings/match.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/str_replace.h"
#include "absl/strings/str_split.h"
#include "base/check.h"
#include "base/status_macros.h"
#include "flags/config_file.h"
#include "flags/message_flags.h"

namespace oarlock::flags {
namespace {

using google::protobuf::FieldDescriptor;
using google::protobuf::Message;

constexpr char kConfigFlag[] = "config";
constexpr size_t kHelpColumns = 80;
constexpr size_t kHelpIndent = 6;

// A flag and the fields that it sets.
struct Flag {
  std::vector<std::pair<Message*, const FieldDescriptor*>> targets;
  std::vector<std::string> aliases;
  // What the command line said, in order.
  std::vector<std::string> words;

  bool is_bool() const {
    return !targets.empty() &&
           targets[0].second->cpp_type() == FieldDescriptor::CPPTYPE_BOOL;
  }
  bool is_list() const {
    return !targets.empty() && targets[0].second->is_repeated();
  }
};

std::vector<const FieldDescriptor*> FieldsOf(const FlagSource& source) {
  std::vector<const FieldDescriptor*> fields;
  for (const FieldDescriptor* field :
       FlagFields(source.message->GetDescriptor())) {
    if (source.only.empty() || std::find(source.only.begin(), source.only.end(),
                                         field->name()) != source.only.end()) {
      fields.push_back(field);
    }
  }
  return fields;
}

// The flags of one command, by name and by alias.
class FlagTable {
 public:
  FlagTable(const CommandSyntax& syntax, absl::Span<const FlagSource> sources) {
    for (const FlagSource& source : sources) {
      for (const FieldDescriptor* field : FieldsOf(source)) {
        Flag& flag = flags_[field->name()];
        flag.targets.emplace_back(source.message, field);
        for (const std::string& alias : FlagAliases(field)) {
          canonical_.emplace(alias, field->name());
          flag.aliases.push_back(alias);
        }
      }
    }
    if (syntax.takes_config) flags_[kConfigFlag];
    for (const auto& [name, flag] : flags_) canonical_[name] = name;
  }

  std::map<std::string, Flag>& flags() { return flags_; }

  // The flag's name for what stands after the dashes, or an empty string.
  std::string Canonical(const std::string& spelling) const {
    auto found = canonical_.find(absl::StrReplaceAll(spelling, {{"-", "_"}}));
    return found == canonical_.end() ? "" : found->second;
  }

  std::vector<std::string> Spellings() const {
    std::vector<std::string> spellings;
    for (const auto& [spelling, name] : canonical_) {
      spellings.push_back(spelling);
    }
    return spellings;
  }

 private:
  std::map<std::string, Flag> flags_;
  std::map<std::string, std::string> canonical_;
};

// The command line in one spelling: every flag as two words, "--name" and its
// value.
struct UniformWords {
  bool help = false;
  std::vector<std::string> words;
};

UniformWords MakeUniform(const CommandSyntax& syntax, const FlagTable& table,
                         const std::map<std::string, Flag>& flags,
                         absl::Span<const std::string> args) {
  UniformWords result;
  size_t i = 0;
  for (; i < args.size(); ++i) {
    const std::string& word = args[i];
    if (word == "--") break;
    if (word == "--help" || word == "-h") {
      result.help = true;
      return result;
    }
    const size_t equals = word.find('=');
    std::string name;
    if (absl::StartsWith(word, "--")) {
      name = table.Canonical(word.substr(2, equals - 2));
    } else if (syntax.takes_config && word == "-c") {
      name = kConfigFlag;
    }
    if (name.empty()) {
      // A program's own flags are not looked at.
      if (syntax.positionals == Positionals::kProgram) break;
      result.words.push_back(word);
      continue;
    }
    result.words.push_back("--" + name);
    bool ignored;
    const bool has_next = i + 1 < args.size();
    if (equals != std::string::npos) {
      result.words.push_back(word.substr(equals + 1));
    } else if (flags.at(name).is_bool() &&
               !(has_next && absl::SimpleAtob(args[i + 1], &ignored))) {
      result.words.push_back("true");
    } else if (has_next) {
      result.words.push_back(args[++i]);
    }
  }
  result.words.insert(result.words.end(), args.begin() + i, args.end());
  return result;
}

absl::Status UnknownFlag(const CommandSyntax& syntax, const FlagTable& table,
                         const std::string& word) {
  const std::string spelling = absl::StrReplaceAll(
      std::string(
          absl::StripLeadingAsciiWhitespace(word.substr(0, word.find('=')))),
      {{"-", "_"}});
  const std::string closest =
      ClosestName(spelling.substr(std::min(spelling.size(),
                                           spelling.find_first_not_of('_'))),
                  table.Spellings());
  return absl::InvalidArgumentError(absl::StrCat(
      "unknown flag ", word.substr(0, word.find('=')),
      closest.empty() ? "" : absl::StrCat(" (did you mean --", closest, "?)"),
      "; see `", syntax.name, " --help`"));
}

absl::Status CheckPositionals(const CommandSyntax& syntax,
                              const FlagTable& table, bool after_dashes,
                              const std::vector<std::string>& words) {
  if (words.empty() || after_dashes) return absl::OkStatus();
  const bool program = syntax.positionals == Positionals::kProgram;
  for (const std::string& word :
       absl::MakeConstSpan(words).first(program ? 1 : words.size())) {
    if (word.size() > 1 && word[0] == '-') {
      return UnknownFlag(syntax, table, word);
    }
  }
  if (syntax.positionals == Positionals::kNone) {
    return absl::InvalidArgumentError(
        absl::StrCat("unexpected word \"", words[0], "\"; ", syntax.name,
                     " takes only flags; see `", syntax.name, " --help`"));
  }
  return absl::OkStatus();
}

// Fills flags' words; returns what is left over.
absl::StatusOr<std::vector<std::string>> RunCli11(
    const CommandSyntax& syntax, std::vector<std::string> words,
    std::map<std::string, Flag>* flags) {
  CLI::App app;
  app.set_help_flag();
  app.allow_extras();
  app.prefix_command(syntax.positionals == Positionals::kProgram);
  for (auto& [name, flag] : *flags) {
    CLI::Option* option = app.add_option("--" + name, flag.words);
    option->multi_option_policy(CLI::MultiOptionPolicy::TakeAll);
    // Where words may stand between flags, a list takes one word at a time.
    if (!flag.is_list() || syntax.positionals != Positionals::kNone) {
      option->expected(1);
      option->allow_extra_args(false);
    }
  }
  // The library takes the words from the back.
  std::reverse(words.begin(), words.end());
  const std::string last = words.empty() ? "" : words.front();
  try {
    app.parse(words);
  } catch (const CLI::ArgumentMismatch&) {
    return absl::InvalidArgumentError(absl::StrCat(
        "the flag ", last, " needs a value; see `", syntax.name, " --help`"));
  } catch (const CLI::Error& error) {
    return absl::InvalidArgumentError(absl::StrReplaceAll(
        absl::StrCat(error.what(), "; see `", syntax.name, " --help`"),
        {{"\n", " "}}));
  }
  return app.remaining();
}

absl::Status ApplyFlags(const CommandSyntax& syntax,
                        absl::Span<const FlagSource> sources,
                        const std::map<std::string, Flag>& flags) {
  if (syntax.takes_config && !flags.at(kConfigFlag).words.empty()) {
    std::vector<Message*> messages;
    for (const FlagSource& source : sources) {
      messages.push_back(source.message);
    }
    OARLOCK_RETURN_IF_ERROR(
        LoadTextproto(flags.at(kConfigFlag).words.back(), messages));
  }
  for (const auto& [name, flag] : flags) {
    if (flag.words.empty()) continue;
    for (const auto& [message, field] : flag.targets) {
      OARLOCK_RETURN_IF_ERROR(SetFlag(field, flag.words, message));
    }
  }
  for (const FlagSource& source : sources) {
    OARLOCK_RETURN_IF_ERROR(ValidateMessage(*source.message));
  }
  return absl::OkStatus();
}

// Appends `text` in lines of at most kHelpColumns.
void AppendWrapped(const std::string& text, std::string* out) {
  const std::string indent(kHelpIndent, ' ');
  std::string line = indent;
  for (absl::string_view word : absl::StrSplit(text, ' ')) {
    if (line.size() + 1 + word.size() > kHelpColumns &&
        line.size() > indent.size()) {
      absl::StrAppend(out, line, "\n");
      line = indent;
    }
    if (line.size() > indent.size()) line += ' ';
    absl::StrAppend(&line, word);
  }
  absl::StrAppend(out, line, "\n");
}

// `value` is what the flag is when it is not given.
FlagText TextOf(const FieldDescriptor* field, const std::string& value) {
  FlagText text;
  text.name = field->name();
  text.aliases = FlagAliases(field);
  if (field->is_repeated()) {
    text.value = "X,Y,...";
  } else if (field->cpp_type() == FieldDescriptor::CPPTYPE_STRING) {
    text.value = "TEXT";
  } else if (field->cpp_type() != FieldDescriptor::CPPTYPE_BOOL) {
    text.value = "N";
  }
  text.group = FlagGroup(field).empty() ? "Flags" : FlagGroup(field);
  std::vector<std::string> notes;
  if (!value.empty()) notes.push_back("default " + value);
  if (!FlagLegal(field).empty()) notes.push_back(FlagLegal(field));
  text.help = FlagHelp(field);
  if (!notes.empty()) {
    absl::StrAppend(&text.help, " [", absl::StrJoin(notes, "; "), "]");
  }
  text.choices = FlagChoices(field);
  return text;
}

std::string FlagHelpText(const FlagText& flag) {
  const char* const short_name = flag.name == "help"        ? "-h, "
                                 : flag.name == kConfigFlag ? "-c, "
                                                            : "";
  std::string text = absl::StrCat("  ", short_name, "--", flag.name,
                                  flag.value.empty() ? "" : " ", flag.value);
  for (const std::string& alias : flag.aliases) {
    absl::StrAppend(&text, ", --", alias);
  }
  text += "\n";
  AppendWrapped(flag.help, &text);
  return text;
}

}  // namespace

CommandText DescribeCommand(const CommandSyntax& syntax,
                            absl::Span<const FlagSource> sources) {
  CommandText command{syntax, {}};
  std::vector<FlagText>& flags = command.flags;
  for (const FlagSource& source : sources) {
    for (const FieldDescriptor* field : FieldsOf(source)) {
      if (std::any_of(flags.begin(), flags.end(), [&](const FlagText& flag) {
            return flag.name == field->name();
          })) {
        continue;
      }
      FlagText text = TextOf(field, FlagValue(*source.message, field));
      const auto last_of_group = std::find_if(
          flags.rbegin(), flags.rend(),
          [&](const FlagText& flag) { return flag.group == text.group; });
      flags.insert(
          last_of_group == flags.rend() ? flags.end() : last_of_group.base(),
          std::move(text));
    }
  }
  const auto other = [&](std::string name, std::string value,
                         std::string help) {
    flags.push_back(
        {std::move(name), {}, std::move(value), "Other", std::move(help), {}});
  };
  if (syntax.takes_config) {
    other(kConfigFlag, "FILE",
          "Text protobuf with these flags as fields; flags override it.");
  }
  other("help", "", "Prints this.");
  return command;
}

std::string HelpText(const CommandSyntax& syntax,
                     absl::Span<const FlagSource> sources) {
  std::string text =
      absl::StrCat(syntax.description, "\n\nUsage: ", syntax.name, " [flags]",
                   syntax.positional_names.empty() ? "" : " ",
                   syntax.positional_names, "\n");
  std::string group;
  for (const FlagText& flag : DescribeCommand(syntax, sources).flags) {
    if (flag.group != group) absl::StrAppend(&text, "\n", flag.group, ":\n");
    group = flag.group;
    text += FlagHelpText(flag);
  }
  if (!syntax.examples.empty()) {
    absl::StrAppend(&text, "\nExamples:\n");
    for (absl::string_view line : absl::StrSplit(
             absl::StripTrailingAsciiWhitespace(syntax.examples), '\n')) {
      absl::StrAppend(&text, "  ", line, "\n");
    }
  }
  return text;
}

namespace {

absl::StatusOr<ParsedCommandLine> ParseWords(
    const CommandSyntax& syntax, absl::Span<const std::string> args,
    absl::Span<const FlagSource> sources) {
  FlagTable table(syntax, sources);
  UniformWords uniform = MakeUniform(syntax, table, table.flags(), args);
  ParsedCommandLine parsed;
  if (uniform.help) {
    parsed.help = HelpText(syntax, sources);
    return parsed;
  }
  OARLOCK_ASSIGN_OR_RETURN(
      parsed.positionals,
      RunCli11(syntax, std::move(uniform.words), &table.flags()));
  bool after_dashes = false;
  if (!parsed.positionals.empty() && parsed.positionals[0] == "--") {
    after_dashes = syntax.positionals != Positionals::kNone;
    parsed.positionals.erase(parsed.positionals.begin());
  }
  OARLOCK_RETURN_IF_ERROR(
      CheckPositionals(syntax, table, after_dashes, parsed.positionals));
  OARLOCK_RETURN_IF_ERROR(ApplyFlags(syntax, sources, table.flags()));
  return parsed;
}

}  // namespace

absl::StatusOr<ParsedCommandLine> ParseCommandLine(
    const CommandSyntax& syntax, absl::Span<const std::string> args,
    absl::Span<const FlagSource> sources) {
  absl::StatusOr<ParsedCommandLine> parsed = ParseWords(syntax, args, sources);
  if (!parsed.ok()) return InOneLine(parsed.status());
  return parsed;
}

std::optional<int> FinishEarly(
    const CommandSyntax& syntax,
    const absl::StatusOr<ParsedCommandLine>& parsed) {
  if (!parsed.ok()) return ReportUsageError(syntax, parsed.status());
  if (!parsed->help.has_value()) return std::nullopt;
  std::fputs(parsed->help->c_str(), stdout);
  return 0;
}

int ReportUsageError(const CommandSyntax& syntax, const absl::Status& status) {
  std::fprintf(stderr, "%s: %s\n", syntax.name.c_str(),
               std::string(status.message()).c_str());
  return kUsageExitCode;
}

std::vector<std::string> Words(int argc, char* const* argv, int skip) {
  return {argv + std::min(skip, argc), argv + argc};
}

}  // namespace oarlock::flags
