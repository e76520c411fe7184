#include "flags/message_flags.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <cstdint>
#include <filesystem>
#include <limits>
#include <system_error>
#include <utility>

#include "absl/algorithm/container.h"
#include "absl/strings/ascii.h"
#include "absl/strings/escaping.h"
#include "absl/strings/match.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/str_join.h"
#include "absl/strings/str_replace.h"
#include "absl/strings/str_split.h"
#include "base/check.h"
#include "base/status_macros.h"
#include "proto/config/job_config.pb.h"

namespace oarlock::flags {
namespace {

using google::protobuf::Descriptor;
using google::protobuf::FieldDescriptor;
using google::protobuf::Message;

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

bool Exists(const std::string& path) {
  std::error_code error;
  return std::filesystem::exists(path, error);
}

// "s3" of "s3://bucket/data"; empty: `value` begins with no scheme.
absl::string_view SchemeOf(absl::string_view value) {
  const size_t end = value.find("://");
  if (end == absl::string_view::npos || end == 0) return {};
  const absl::string_view scheme = value.substr(0, end);
  const bool legal = absl::c_all_of(scheme, [](unsigned char c) {
    return absl::ascii_isalnum(c) || c == '+' || c == '-' || c == '.';
  });
  return legal ? scheme : absl::string_view();
}

// Few flags read addresses of stores or of the web. As a path, one would become
// a folder "s3:" here.
absl::Status CheckHasNoScheme(const FieldDescriptor* field,
                              const std::string& value) {
  // The first is text, and the others say themselves which addresses they take.
  constexpr std::array<absl::string_view, 4> kOthers = {
      "reason", "master", "train_files", "test_files"};
  if (absl::c_linear_search(kOthers, field->name()) ||
      SchemeOf(value).empty()) {
    return absl::OkStatus();
  }
  return absl::InvalidArgumentError(absl::StrCat(
      "--", field->name(), " is \"", value, "\"; ", SchemeOf(value),
      ":// is not read; it must be a path on this machine: mount the store, or "
      "copy from it and to it"));
}

absl::Status CheckString(const FieldDescriptor* field,
                         const std::string& value) {
  OARLOCK_RETURN_IF_ERROR(CheckHasNoScheme(field, value));
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

std::vector<std::string> FlagChoices(const FieldDescriptor* field) {
  const auto& choices = Options(field).one_of();
  return {choices.begin(), choices.end()};
}

absl::Status CheckFlag(const Message& message, const FieldDescriptor* field) {
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

absl::Status SetFlag(const FieldDescriptor* field,
                     absl::Span<const std::string> words, Message* message) {
  const google::protobuf::Reflection* reflection = message->GetReflection();
  OARLOCK_CHECK(!words.empty());
  if (!field->is_repeated()) {
    OARLOCK_RETURN_IF_ERROR(SetSingle(field, words.back(), message));
    return CheckFlag(*message, field);
  }
  reflection->ClearField(message, field);
  for (const std::string& word : words) {
    // A path may have a comma.
    if (absl::EndsWith(field->name(), "files") && Exists(word)) {
      reflection->AddString(message, field, word);
      continue;
    }
    for (absl::string_view part :
         absl::StrSplit(word, ',', absl::SkipWhitespace())) {
      reflection->AddString(message, field,
                            std::string(absl::StripAsciiWhitespace(part)));
    }
  }
  return CheckFlag(*message, field);
}

absl::Status ValidateMessage(const Message& message) {
  for (const FieldDescriptor* field : FlagFields(message.GetDescriptor())) {
    OARLOCK_RETURN_IF_ERROR(CheckFlag(message, field));
  }
  return absl::OkStatus();
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

namespace {

// Letters too many, missing or wrong, and pairs in the wrong order: the
// restricted distance of Damerau (1964).
size_t Mistakes(const std::string& word, const std::string& right) {
  // rows[i][j]: between the first i letters and the first j.
  std::vector<std::vector<size_t>> rows(word.size() + 1,
                                        std::vector<size_t>(right.size() + 1));
  for (size_t i = 0; i <= word.size(); ++i) {
    for (size_t j = 0; j <= right.size(); ++j) {
      if (i == 0 || j == 0) {
        rows[i][j] = i + j;
        continue;
      }
      const bool same = word[i - 1] == right[j - 1];
      size_t least = rows[i - 1][j - 1] + (same ? 0 : 1);
      least = std::min({least, rows[i - 1][j] + 1, rows[i][j - 1] + 1});
      if (i > 1 && j > 1 && word[i - 1] == right[j - 2] &&
          word[i - 2] == right[j - 1]) {
        least = std::min(least, rows[i - 2][j - 2] + 1);
      }
      rows[i][j] = least;
    }
  }
  return rows.back().back();
}

}  // namespace

std::string ClosestName(const std::string& word,
                        absl::Span<const std::string> candidates) {
  // At most this share of the letters may be wrong.
  constexpr size_t kLettersPerMistake = 3;
  std::string closest;
  size_t least = word.size() / kLettersPerMistake + 1;
  for (const std::string& candidate : candidates) {
    const size_t mistakes = Mistakes(word, candidate);
    if (mistakes < least) {
      least = mistakes;
      closest = candidate;
    }
  }
  return closest;
}

}  // namespace oarlock::flags
