#include "capi/json.h"

#include <google/protobuf/util/json_util.h>

#include "absl/strings/str_cat.h"
#include "base/check.h"

namespace oarlock::capi {

absl::Status FromJson(std::string_view text, std::string_view what,
                      google::protobuf::Message* message) {
  message->Clear();
  const auto status = google::protobuf::util::JsonStringToMessage(
      google::protobuf::StringPiece(text.data(), text.size()), message);
  if (status.ok()) return absl::OkStatus();
  return absl::InvalidArgumentError(absl::StrCat(
      std::string(what), " cannot be read: ", std::string(status.message()),
      "; legal is JSON of ", message->GetDescriptor()->full_name()));
}

std::string ToJson(const google::protobuf::Message& message) {
  google::protobuf::util::JsonPrintOptions options;
  options.preserve_proto_field_names = true;
  options.always_print_primitive_fields = true;
  std::string text;
  // Fails for types that are not linked, and messages of ours have none.
  const auto status =
      google::protobuf::util::MessageToJsonString(message, &text, options);
  OARLOCK_CHECK(status.ok());
  return text;
}

}  // namespace oarlock::capi
