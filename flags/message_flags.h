// Options that are protobuf messages: what a field's `flag` option
// (proto/config/job_config.proto) says, setting a field from text, checking a
// message, and its table for the documentation.

#ifndef OARLOCK_FLAGS_MESSAGE_FLAGS_H_
#define OARLOCK_FLAGS_MESSAGE_FLAGS_H_

#include <google/protobuf/descriptor.h>
#include <google/protobuf/message.h>

#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/types/span.h"

namespace oarlock::flags {

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

// The only legal values of a string; empty: any value.
std::vector<std::string> FlagChoices(
    const google::protobuf::FieldDescriptor* field);

// Sets the field from words of a command line: one for a single field (the
// last counts), any number for a list, which they replace; each word of a list
// may be comma-separated. InvalidArgument: one sentence with the flag, its
// value and what is legal.
absl::Status SetFlag(const google::protobuf::FieldDescriptor* field,
                     absl::Span<const std::string> words,
                     google::protobuf::Message* message);

// Whether the field's values are legal; a field that is not set always is.
// InvalidArgument: one sentence, as above.
absl::Status CheckFlag(const google::protobuf::Message& message,
                       const google::protobuf::FieldDescriptor* field);

// The same of every field.
absl::Status ValidateMessage(const google::protobuf::Message& message);

// `status` with control characters of its message escaped: what somebody typed
// or wrote into a file is quoted there, and may hold line breaks.
absl::Status InOneLine(const absl::Status& status);

// A table of the flags of `type`: name, default, legal values, meaning.
std::string MarkdownTable(const google::protobuf::Descriptor* type);

// The name among `candidates` that `word` is most likely a misspelling of, or
// an empty string.
std::string ClosestName(const std::string& word,
                        absl::Span<const std::string> candidates);

}  // namespace oarlock::flags

#endif  // OARLOCK_FLAGS_MESSAGE_FLAGS_H_
