// Files of flags: text protobufs whose fields are flags.

#ifndef OARLOCK_FLAGS_CONFIG_FILE_H_
#define OARLOCK_FLAGS_CONFIG_FILE_H_

#include <google/protobuf/message.h>

#include <string>

#include "absl/status/status.h"
#include "absl/types/span.h"

namespace oarlock::flags {

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

}  // namespace oarlock::flags

#endif  // OARLOCK_FLAGS_CONFIG_FILE_H_
