// Options that are protobuf messages: what a field's `flag` option
// (proto/job_config.proto) says, setting a field from text, checking a message,
// reading it from a file, and its table for the documentation.

#ifndef OARLOCK_FLEET_COMMAND_LINE_MESSAGE_FLAGS_H_
#define OARLOCK_FLEET_COMMAND_LINE_MESSAGE_FLAGS_H_

#include <google/protobuf/descriptor.h>
#include <google/protobuf/message.h>

#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/types/span.h"

namespace oarlock {

// The fields of `type` that are flags, in the order of their numbers. A flag
// has the name of its field. REQUIRES of every message: such fields are
// numbers, booleans or strings; only strings are repeated.
std::vector<const google::protobuf::FieldDescriptor*> FlagFields(
    const google::protobuf::Descriptor* type);

// Other names of the flag.
std::vector<std::string> FlagAliases(
    const google::protobuf::FieldDescriptor* field);
// Heading in --help.
std::string FlagGroup(const google::protobuf::FieldDescriptor* field);
// The field's sentence.
std::string FlagHelp(const google::protobuf::FieldDescriptor* field);
// "512", "log1p"; empty when there is no default or it is the empty string.
std::string FlagDefault(const google::protobuf::FieldDescriptor* field);
// The message's value, which is the default where it sets none; a list with
// commas.
std::string FlagValue(const google::protobuf::Message& message,
                      const google::protobuf::FieldDescriptor* field);
// "1 to 1048576", "at least 0", "lr, ctr_dnn or deepfm"; empty: any value.
std::string FlagLegal(const google::protobuf::FieldDescriptor* field);

// Sets the field from words of a command line: one for a single field (the
// last counts), any number for a list, which they replace; each word of a list
// may be comma-separated. InvalidArgument: one sentence with the flag, its
// value and what is legal.
absl::Status SetFlag(const google::protobuf::FieldDescriptor* field,
                     absl::Span<const std::string> words,
                     google::protobuf::Message* message);

// Whether every field that is set is legal. InvalidArgument: one sentence, as
// above.
absl::Status ValidateMessage(const google::protobuf::Message& message);

// Reads a text protobuf into `messages`, each field into every message that has
// it (what the file lacks stays), and checks it. NotFound for a file that
// cannot be read; InvalidArgument with file, line and what is legal: nothing is
// set then.
absl::Status LoadTextproto(
    const std::string& path,
    absl::Span<google::protobuf::Message* const> messages);
absl::Status LoadTextproto(const std::string& path,
                           google::protobuf::Message* message);
// The same of a file's text; `name` is what errors call it.
absl::Status ParseTextproto(
    const std::string& name, const std::string& text,
    absl::Span<google::protobuf::Message* const> messages);
absl::Status ParseTextproto(const std::string& name, const std::string& text,
                            google::protobuf::Message* message);

// The same with control characters of its message escaped: what somebody typed
// or wrote into a file is quoted there, and may hold line breaks.
absl::Status InOneLine(const absl::Status& status);

// A table of the flags of `type`: name, default, legal values, meaning.
std::string MarkdownTable(const google::protobuf::Descriptor* type);

// The name among `candidates` that `word` is most likely a misspelling of, or
// an empty string.
std::string ClosestName(const std::string& word,
                        absl::Span<const std::string> candidates);

}  // namespace oarlock

#endif  // OARLOCK_FLEET_COMMAND_LINE_MESSAGE_FLAGS_H_
