#include "flags/config_file.h"

#include <google/protobuf/descriptor.h>
#include <google/protobuf/io/tokenizer.h>
#include <google/protobuf/text_format.h>

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <map>
#include <memory>
#include <optional>
#include <system_error>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "base/check.h"
#include "base/status_macros.h"
#include "flags/message_flags.h"

namespace oarlock::flags {
namespace {

using google::protobuf::Descriptor;
using google::protobuf::FieldDescriptor;
using google::protobuf::Message;
using google::protobuf::TextFormat;

// Keeps the first error, and where fields stand that the message has not, with
// what the parser says of them. Lines are counted from 0.
class ConfigErrors : public google::protobuf::io::ErrorCollector {
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

// What to say instead of a parser's error about a field that none of the
// messages has.
std::string UnknownField(const std::string& error,
                         absl::Span<Message* const> messages) {
  constexpr char kMarker[] = "has no field named \"";
  const size_t at = error.find(kMarker);
  if (at == std::string::npos) return error;
  const size_t begin = at + sizeof(kMarker) - 1;
  const std::string name = error.substr(begin, error.find('"', begin) - begin);
  std::vector<std::string> names;
  for (const Message* message : messages) {
    const Descriptor* type = message->GetDescriptor();
    for (int i = 0; i < type->field_count(); ++i) {
      names.push_back(type->field(i)->name());
    }
  }
  const std::string closest = ClosestName(name, names);
  return absl::StrCat("there is no flag \"", name, "\"; ",
                      closest.empty()
                          ? "legal are the names of the flags, see --help"
                          : absl::StrCat("did you mean ", closest, "?"));
}

// Parses what `loaded` has fields for, and checks it; `unknown` loses what is
// known here, or begins as what is not.
absl::Status ParseKnown(
    const std::string& name, const std::string& text, Message* loaded,
    std::optional<std::map<ConfigErrors::Place, std::string>>* unknown) {
  ConfigErrors errors;
  TextFormat::ParseInfoTree locations;
  TextFormat::Parser parser;
  parser.RecordErrorsTo(&errors);
  parser.WriteLocationsTo(&locations);
  parser.AllowUnknownField(true);
  if (!parser.ParseFromString(text, loaded)) {
    const auto error = errors.error().value_or(std::pair(0, "not parsed"));
    return absl::InvalidArgumentError(absl::StrCat(
        name, ":", std::max(error.first, 0) + 1, ": ", error.second));
  }
  if (!unknown->has_value()) *unknown = errors.unknown();
  for (auto it = (*unknown)->begin(); it != (*unknown)->end();) {
    it = errors.unknown().contains(it->first) ? std::next(it)
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
        Annotate(CheckFlag(*loaded, field),
                 absl::StrCat(name, ":", std::max(line, 0) + 1)));
  }
  return absl::OkStatus();
}

absl::Status ParseText(const std::string& name, const std::string& text,
                       absl::Span<Message* const> messages) {
  std::vector<std::unique_ptr<Message>> all_loaded;
  std::optional<std::map<ConfigErrors::Place, std::string>> unknown;
  for (const Message* message : messages) {
    all_loaded.emplace_back(message->New());
    OARLOCK_RETURN_IF_ERROR(
        ParseKnown(name, text, all_loaded.back().get(), &unknown));
  }
  if (unknown.has_value() && !unknown->empty()) {
    const auto& [place, error] = *unknown->begin();
    return absl::InvalidArgumentError(absl::StrCat(
        name, ":", place.first + 1, ": ", UnknownField(error, messages)));
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

absl::Status LoadTextproto(const std::string& path, Message* message) {
  return LoadTextproto(path, absl::MakeConstSpan(&message, 1));
}

absl::Status LoadTextproto(const std::string& path,
                           absl::Span<Message* const> messages) {
  OARLOCK_CHECK(!messages.empty());
  std::error_code error;
  std::ifstream file(path);
  std::string text;
  // Reading one throws.
  const bool is_folder = std::filesystem::is_directory(path, error);
  if (!is_folder) text.assign(std::istreambuf_iterator<char>(file), {});
  if (is_folder || !file.is_open() || file.bad()) {
    return absl::NotFoundError(
        absl::StrCat("the configuration file ", path,
                     " cannot be read; give the path of a text protobuf of ",
                     messages[0]->GetDescriptor()->name()));
  }
  return ParseTextproto(path, text, messages);
}

absl::Status ParseTextproto(const std::string& name, const std::string& text,
                            absl::Span<Message* const> messages) {
  return InOneLine(ParseText(name, text, messages));
}

absl::Status ParseTextproto(const std::string& name, const std::string& text,
                            Message* message) {
  return ParseTextproto(name, text, absl::MakeConstSpan(&message, 1));
}

}  // namespace oarlock::flags
