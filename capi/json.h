// Published messages as JSON, with the names of their .proto files.

#ifndef OARLOCK_CAPI_JSON_H_
#define OARLOCK_CAPI_JSON_H_

#include <google/protobuf/message.h>

#include <string>
#include <string_view>

#include "absl/status/status.h"

namespace oarlock::capi {

// InvalidArgument: `text` is no JSON of such a message, and why; `what` names
// it in the text.
absl::Status FromJson(std::string_view text, std::string_view what,
                      google::protobuf::Message* message);

std::string ToJson(const google::protobuf::Message& message);

}  // namespace oarlock::capi

#endif  // OARLOCK_CAPI_JSON_H_
