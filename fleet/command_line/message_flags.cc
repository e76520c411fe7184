#include "fleet/command_line/message_flags.h"

#include <google/protobuf/io/tokenizer.h>
#include <google/protobuf/text_format.h>

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <fstream>
#include <iterator>
#include <limits>
#include <map>
#include <memory>
#include <optional>
#include <utility>

#include "absl/strings/ascii.h"
#include "absl/strings/escaping.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/str_join.h"
#include "absl/strings/str_replace.h"
#include "absl/strings/str_split.h"
#include "base/check.h"
#include "base/status_macros.h"
#include "proto/job_config.pb.h"

namespace oarlock {
namespace {

using google::protobuf::Descriptor;
using google::protobuf::FieldDescriptor;
using google::protobuf::Message;
using google::protobuf::TextFormat;

const v1::FlagOptions& Options(const FieldDescriptor* field) {
  return field->options().GetExtension(v1::flag);
}

// A limit that only says "as large as the type".
constexpr double kUnlimited = 9e18;

std::string FormatNumber(double value) {
  if (value == std::floor(value) && std::abs(value) < 1e15) {
    return absl::StrCat(static_cast<int64_t>(value));
  }
  return absl::StrFormat("%.15g", value);
}

std::string JoinAlternatives(const std::vector<std::string>& words) {
  if (words.size() < 2) return absl::StrJoin(words, "");
  return absl::StrCat(absl::StrJoin(words.begin(), words.end() - 1, ", "),
                      " or ", words.back());
}

bool IsNumber(const FieldDescriptor* field) {
  switch (field->cpp_type()) {
    case FieldDescriptor::CPPTYPE_BOOL:
    case FieldDescriptor::CPPTYPE_STRING:
    case FieldDescriptor::CPPTYPE_ENUM:
    case FieldDescriptor::CPPTYPE_MESSAGE:
      return false;
    default:
      return true;
  }
}

bool IsInteger(const FieldDescriptor* field) {
  return IsNumber(field) &&
         field->cpp_type() != FieldDescriptor::CPPTYPE_DOUBLE &&
         field->cpp_type() != FieldDescriptor::CPPTYPE_FLOAT;
}

// "a whole number, 1 to 1048576".
std::string DescribeLegal(const FieldDescriptor* field) {
  std::string kind;
  if (field->cpp_type() == FieldDescriptor::CPPTYPE_BOOL) {
    return "true or false";
  }
  if (IsNumber(field)) kind = IsInteger(field) ? "a whole number" : "a number";
  const std::string legal = FlagLegal(field);
  if (kind.empty()) return legal;
  return legal.empty() ? kind : absl::StrCat(kind, ", ", legal);
}

absl::Status IllegalValue(const FieldDescriptor* field,
                          const std::string& value) {
  std::string example = FlagDefault(field);
  if (example.empty() && Options(field).one_of_size() > 0) {
    example = Options(field).one_of(0);
  }
  if (example.empty() && Options(field).has_min()) {
    example = FormatNumber(Options(field).min());
  }
  return absl::InvalidArgumentError(absl::StrCat(
      "--", field->name(), " is \"", value, "\"; it must be ",
      DescribeLegal(field),
      example.empty()
          ? ""
          : absl::StrCat("; for example --", field->name(), " ", example)));
}

absl::Status CheckNumber(const FieldDescriptor* field, double value) {
  const v1::FlagOptions& options = Options(field);
  if (!std::isfinite(value) || (options.has_min() && value < options.min()) ||
      (options.has_max() && value > options.max())) {
    return IllegalValue(field, FormatNumber(value));
  }
  return absl::OkStatus();
}

absl::Status CheckString(const FieldDescriptor* field,
                         const std::string& value) {
  const auto& legal = Options(field).one_of();
  if (legal.empty() ||
      std::find(legal.begin(), legal.end(), value) != legal.end()) {
    return absl::OkStatus();
  }
  return IllegalValue(field, value);
}

bool ParseBool(const std::string& word, bool* value) {
  // Accepts true, false, yes, no, 1, 0 and so on, in any case: "True" is what
  // Python programs are told to say.
  return absl::SimpleAtob(word, value);
}

absl::Status SetSingle(const FieldDescriptor* field, const std::string& word,
                       Message* message) {
  const google::protobuf::Reflection* reflection = message->GetReflection();
  bool parsed = false;
  switch (field->cpp_type()) {
    case FieldDescriptor::CPPTYPE_INT32: {
      int32_t value;
      parsed = absl::SimpleAtoi(word, &value);
      if (parsed) reflection->SetInt32(message, field, value);
      break;
    }
    case FieldDescriptor::CPPTYPE_INT64: {
      int64_t value;
      parsed = absl::SimpleAtoi(word, &value);
      if (parsed) reflection->SetInt64(message, field, value);
      break;
    }
    case FieldDescriptor::CPPTYPE_UINT32: {
      uint32_t value;
      parsed = absl::SimpleAtoi(word, &value);
      if (parsed) reflection->SetUInt32(message, field, value);
      break;
    }
    case FieldDescriptor::CPPTYPE_UINT64: {
      uint64_t value;
      parsed = absl::SimpleAtoi(word, &value);
      if (parsed) reflection->SetUInt64(message, field, value);
      break;
    }
    case FieldDescriptor::CPPTYPE_DOUBLE: {
      double value;
      parsed = absl::SimpleAtod(word, &value);
      if (parsed) reflection->SetDouble(message, field, value);
      break;
    }
    case FieldDescriptor::CPPTYPE_FLOAT: {
      float value;
      parsed = absl::SimpleAtof(word, &value);
      if (parsed) reflection->SetFloat(message, field, value);
      break;
    }
    case FieldDescriptor::CPPTYPE_BOOL: {
      bool value;
      parsed = ParseBool(word, &value);
      if (parsed) reflection->SetBool(message, field, value);
      break;
    }
    case FieldDescriptor::CPPTYPE_STRING:
      parsed = true;
      reflection->SetString(message, field, word);
      break;
    case FieldDescriptor::CPPTYPE_ENUM:
    case FieldDescriptor::CPPTYPE_MESSAGE:
      OARLOCK_CHECK(false && "a flag is a number, a boolean or a string");
  }
  return parsed ? absl::OkStatus() : IllegalValue(field, word);
}

absl::Status CheckRepeated(const Message& message,
                           const FieldDescriptor* field) {
  const google::protobuf::Reflection* reflection = message.GetReflection();
  for (int i = 0; i < reflection->FieldSize(message, field); ++i) {
    OARLOCK_RETURN_IF_ERROR(
        CheckString(field, reflection->GetRepeatedString(message, field, i)));
  }
  return absl::OkStatus();
}

// Whether the field's values are legal; a field that is not set always is.
absl::Status CheckField(const Message& message, const FieldDescriptor* field) {
  const google::protobuf::Reflection* reflection = message.GetReflection();
  if (field->is_repeated()) return CheckRepeated(message, field);
  if (!reflection->HasField(message, field)) return absl::OkStatus();
  switch (field->cpp_type()) {
    case FieldDescriptor::CPPTYPE_INT32:
      return CheckNumber(field, reflection->GetInt32(message, field));
    case FieldDescriptor::CPPTYPE_INT64:
      return CheckNumber(
          field, static_cast<double>(reflection->GetInt64(message, field)));
    case FieldDescriptor::CPPTYPE_UINT32:
      return CheckNumber(field, reflection->GetUInt32(message, field));
    case FieldDescriptor::CPPTYPE_UINT64:
      return CheckNumber(
          field, static_cast<double>(reflection->GetUInt64(message, field)));
    case FieldDescriptor::CPPTYPE_DOUBLE:
      return CheckNumber(field, reflection->GetDouble(message, field));
    case FieldDescriptor::CPPTYPE_FLOAT:
      return CheckNumber(field, reflection->GetFloat(message, field));
    case FieldDescriptor::CPPTYPE_STRING:
      return CheckString(field, reflection->GetString(message, field));
    default:
      return absl::OkStatus();
  }
}

// Keeps the first error, and where fields stand that the message has not, with
// the parser's complaint. Lines are counted from 0.
class Complaints : public google::protobuf::io::ErrorCollector {
 public:
  using Place = std::pair<int, int>;  // line, column

  void AddError(int line, int column, const std::string& message) override {
    if (!error_.has_value()) error_ = {line, message};
  }
  // Of a parser that goes on after an unknown field.
  void AddWarning(int line, int column, const std::string& message) override {
    unknown_.emplace(Place(line, column), message);
  }

  const std::optional<std::pair<int, std::string>>& error() const {
    return error_;
  }
  const std::map<Place, std::string>& unknown() const { return unknown_; }

 private:
  std::optional<std::pair<int, std::string>> error_;
  std::map<Place, std::string> unknown_;
};

// What to add to a parser's complaint about a field that none of the messages
// has.
std::string FieldHint(const std::string& complaint,
                      absl::Span<Message* const> messages) {
  constexpr char kMarker[] = "has no field named \"";
  const size_t at = complaint.find(kMarker);
  if (at == std::string::npos) return "";
  const size_t begin = at + sizeof(kMarker) - 1;
  const std::string name =
      complaint.substr(begin, complaint.find('"', begin) - begin);
  std::vector<std::string> names;
  for (const Message* message : messages) {
    const Descriptor* type = message->GetDescriptor();
    for (int i = 0; i < type->field_count(); ++i) {
      names.push_back(type->field(i)->name());
    }
  }
  const std::string closest = ClosestName(name, names);
  return closest.empty() ? "; legal are the names of the flags, see --help"
                         : absl::StrCat("; did you mean ", closest, "?");
}

}  // namespace

std::vector<const FieldDescriptor*> FlagFields(const Descriptor* type) {
  std::vector<const FieldDescriptor*> fields;
  for (int i = 0; i < type->field_count(); ++i) {
    const FieldDescriptor* field = type->field(i);
    if (!field->options().HasExtension(v1::flag)) continue;
    OARLOCK_CHECK(!field->is_repeated() ||
                  field->cpp_type() == FieldDescriptor::CPPTYPE_STRING);
    fields.push_back(field);
  }
  std::sort(fields.begin(), fields.end(),
            [](auto* a, auto* b) { return a->number() < b->number(); });
  return fields;
}

std::vector<std::string> FlagAliases(const FieldDescriptor* field) {
  const auto& aliases = Options(field).alias();
  return {aliases.begin(), aliases.end()};
}

std::string FlagGroup(const FieldDescriptor* field) {
  return Options(field).group();
}

std::string FlagHelp(const FieldDescriptor* field) {
  return Options(field).help();
}

std::string FlagDefault(const FieldDescriptor* field) {
  if (field->is_repeated() || !field->has_default_value()) return "";
  switch (field->cpp_type()) {
    case FieldDescriptor::CPPTYPE_INT32:
      return absl::StrCat(field->default_value_int32());
    case FieldDescriptor::CPPTYPE_INT64:
      return absl::StrCat(field->default_value_int64());
    case FieldDescriptor::CPPTYPE_UINT32:
      return absl::StrCat(field->default_value_uint32());
    case FieldDescriptor::CPPTYPE_UINT64:
      return absl::StrCat(field->default_value_uint64());
    case FieldDescriptor::CPPTYPE_DOUBLE:
      return FormatNumber(field->default_value_double());
    case FieldDescriptor::CPPTYPE_FLOAT:
      return FormatNumber(field->default_value_float());
    case FieldDescriptor::CPPTYPE_BOOL:
      return field->default_value_bool() ? "true" : "false";
    case FieldDescriptor::CPPTYPE_STRING:
      return field->default_value_string();
    default:
      return "";
  }
}

std::string FlagValue(const Message& message, const FieldDescriptor* field) {
  const google::protobuf::Reflection* reflection = message.GetReflection();
  if (field->is_repeated()) {
    std::vector<std::string> values;
    for (int i = 0; i < reflection->FieldSize(message, field); ++i) {
      values.push_back(reflection->GetRepeatedString(message, field, i));
    }
    return absl::StrJoin(values, ",");
  }
  if (!reflection->HasField(message, field)) return FlagDefault(field);
  switch (field->cpp_type()) {
    case FieldDescriptor::CPPTYPE_INT32:
      return absl::StrCat(reflection->GetInt32(message, field));
    case FieldDescriptor::CPPTYPE_INT64:
      return absl::StrCat(reflection->GetInt64(message, field));
    case FieldDescriptor::CPPTYPE_UINT32:
      return absl::StrCat(reflection->GetUInt32(message, field));
    case FieldDescriptor::CPPTYPE_UINT64:
      return absl::StrCat(reflection->GetUInt64(message, field));
    case FieldDescriptor::CPPTYPE_DOUBLE:
      return FormatNumber(reflection->GetDouble(message, field));
    case FieldDescriptor::CPPTYPE_FLOAT:
      return FormatNumber(reflection->GetFloat(message, field));
    case FieldDescriptor::CPPTYPE_BOOL:
      return reflection->GetBool(message, field) ? "true" : "false";
    case FieldDescriptor::CPPTYPE_STRING:
      return reflection->GetString(message, field);
    default:
      return "";
  }
}

std::string FlagLegal(const FieldDescriptor* field) {
  const v1::FlagOptions& options = Options(field);
  if (options.one_of_size() > 0) {
    return JoinAlternatives({options.one_of().begin(), options.one_of().end()});
  }
  const bool has_max = options.has_max() && options.max() < kUnlimited;
  if (options.has_min() && has_max) {
    return absl::StrCat(FormatNumber(options.min()), " to ",
                        FormatNumber(options.max()));
  }
  if (options.has_min()) {
    return absl::StrCat("at least ", FormatNumber(options.min()));
  }
  if (has_max) return absl::StrCat("at most ", FormatNumber(options.max()));
  return "";
}

absl::Status SetFlag(const FieldDescriptor* field,
                     absl::Span<const std::string> words, Message* message) {
  const google::protobuf::Reflection* reflection = message->GetReflection();
  OARLOCK_CHECK(!words.empty());
  if (!field->is_repeated()) {
    OARLOCK_RETURN_IF_ERROR(SetSingle(field, words.back(), message));
    return CheckField(*message, field);
  }
  reflection->ClearField(message, field);
  for (const std::string& word : words) {
    for (absl::string_view part :
         absl::StrSplit(word, ',', absl::SkipWhitespace())) {
      reflection->AddString(message, field,
                            std::string(absl::StripAsciiWhitespace(part)));
    }
  }
  return CheckField(*message, field);
}

absl::Status ValidateMessage(const Message& message) {
  for (const FieldDescriptor* field : FlagFields(message.GetDescriptor())) {
    OARLOCK_RETURN_IF_ERROR(CheckField(message, field));
  }
  return absl::OkStatus();
}

absl::Status LoadTextproto(const std::string& path, Message* message) {
  return LoadTextproto(path, absl::MakeConstSpan(&message, 1));
}

absl::Status LoadTextproto(const std::string& path,
                           absl::Span<Message* const> messages) {
  OARLOCK_CHECK(!messages.empty());
  std::ifstream file(path);
  std::string text{std::istreambuf_iterator<char>(file), {}};
  if (!file.is_open() || file.bad()) {
    return absl::NotFoundError(
        absl::StrCat("the configuration file ", path,
                     " cannot be read; give the path of a text protobuf of ",
                     messages[0]->GetDescriptor()->name()));
  }
  return ParseTextproto(path, text, messages);
}

namespace {

// Parses what `loaded` has fields for, and checks it; `unknown` loses what is
// known here, or begins as what is not.
absl::Status ParseKnown(
    const std::string& name, const std::string& text, Message* loaded,
    std::optional<std::map<Complaints::Place, std::string>>* unknown) {
  Complaints complaints;
  TextFormat::ParseInfoTree locations;
  TextFormat::Parser parser;
  parser.RecordErrorsTo(&complaints);
  parser.WriteLocationsTo(&locations);
  parser.AllowUnknownField(true);
  if (!parser.ParseFromString(text, loaded)) {
    const auto error = complaints.error().value_or(std::pair(0, "not parsed"));
    return absl::InvalidArgumentError(absl::StrCat(
        name, ":", std::max(error.first, 0) + 1, ": ", error.second));
  }
  if (!unknown->has_value()) *unknown = complaints.unknown();
  for (auto it = (*unknown)->begin(); it != (*unknown)->end();) {
    it = complaints.unknown().contains(it->first) ? std::next(it)
                                                  : (*unknown)->erase(it);
  }
  for (const FieldDescriptor* field : FlagFields(loaded->GetDescriptor())) {
    // Only what the file says has a place.
    const bool present =
        field->is_repeated()
            ? loaded->GetReflection()->FieldSize(*loaded, field) > 0
            : loaded->GetReflection()->HasField(*loaded, field);
    if (!present) continue;
    const int line =
        locations.GetLocation(field, field->is_repeated() ? 0 : -1).line;
    OARLOCK_RETURN_IF_ERROR(
        Annotate(CheckField(*loaded, field),
                 absl::StrCat(name, ":", std::max(line, 0) + 1)));
  }
  return absl::OkStatus();
}

absl::Status ParseText(const std::string& name, const std::string& text,
                       absl::Span<Message* const> messages) {
  std::vector<std::unique_ptr<Message>> all_loaded;
  std::optional<std::map<Complaints::Place, std::string>> unknown;
  for (const Message* message : messages) {
    all_loaded.emplace_back(message->New());
    OARLOCK_RETURN_IF_ERROR(
        ParseKnown(name, text, all_loaded.back().get(), &unknown));
  }
  if (unknown.has_value() && !unknown->empty()) {
    const auto& [place, complaint] = *unknown->begin();
    return absl::InvalidArgumentError(
        absl::StrCat(name, ":", place.first + 1, ": ", complaint,
                     FieldHint(complaint, messages)));
  }
  for (size_t i = 0; i < messages.size(); ++i) {
    const Message& loaded = *all_loaded[i];
    // A list of the file replaces the earlier one, as a flag does.
    for (const FieldDescriptor* field : FlagFields(loaded.GetDescriptor())) {
      if (field->is_repeated() &&
          loaded.GetReflection()->FieldSize(loaded, field) > 0) {
        messages[i]->GetReflection()->ClearField(messages[i], field);
      }
    }
    messages[i]->MergeFrom(loaded);
  }
  return absl::OkStatus();
}

}  // namespace

absl::Status ParseTextproto(const std::string& name, const std::string& text,
                            absl::Span<Message* const> messages) {
  return InOneLine(ParseText(name, text, messages));
}

absl::Status ParseTextproto(const std::string& name, const std::string& text,
                            Message* message) {
  return ParseTextproto(name, text, absl::MakeConstSpan(&message, 1));
}

absl::Status InOneLine(const absl::Status& status) {
  if (status.ok()) return status;
  std::string line;
  for (const char c : status.message()) {
    if (absl::ascii_iscntrl(static_cast<unsigned char>(c))) {
      absl::StrAppend(&line, absl::CEscape(absl::string_view(&c, 1)));
    } else {
      line += c;
    }
  }
  return absl::Status(status.code(), line);
}

std::string MarkdownTable(const Descriptor* type) {
  const auto cell = [](const std::string& text) {
    return absl::StrReplaceAll(text, {{"|", "\\|"}});
  };
  const auto code = [](const std::string& text) {
    return text.empty() ? "" : absl::StrCat("`", text, "`");
  };
  std::string table =
      "| flag | default | legal | meaning |\n| --- | --- | --- | --- |\n";
  for (const FieldDescriptor* field : FlagFields(type)) {
    std::string name = code("--" + field->name());
    for (const std::string& alias : FlagAliases(field)) {
      absl::StrAppend(&name, ", ", code("--" + alias));
    }
    absl::StrAppend(
        &table, "| ", cell(name), " | ", cell(code(FlagDefault(field))), " | ",
        cell(DescribeLegal(field)), " | ", cell(FlagHelp(field)), " |\n");
  }
  return table;
}

std::string ClosestName(const std::string& word,
                        absl::Span<const std::string> candidates) {
  // At most this share of the letters may be wrong.
  constexpr size_t kLettersPerMistake = 3;
  std::string closest;
  size_t least = word.size() / kLettersPerMistake + 1;
  for (const std::string& candidate : candidates) {
    std::vector<size_t> row(candidate.size() + 1);
    for (size_t j = 0; j < row.size(); ++j) row[j] = j;
    for (size_t i = 1; i <= word.size(); ++i) {
      size_t diagonal = std::exchange(row[0], i);
      for (size_t j = 1; j < row.size(); ++j) {
        const size_t replaced = diagonal + (word[i - 1] != candidate[j - 1]);
        diagonal = std::exchange(
            row[j], std::min({replaced, row[j] + 1, row[j - 1] + 1}));
      }
    }
    if (row.back() < least) {
      least = row.back();
      closest = candidate;
    }
  }
  return closest;
}

}  // namespace oarlock
