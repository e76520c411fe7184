#include "capi/calls.h"

#include <cstring>
#include <string_view>

#include "absl/strings/str_cat.h"
#include "capi/json.h"

namespace oarlock::capi {
namespace {

// Of a configuration or a request.
constexpr size_t kMaxTextBytes = size_t{64} << 20;

// As protobuf has it: no surrogates, nothing beyond U+10FFFF, no longer form
// than needed.
bool IsUtf8(std::string_view text) {
  for (size_t i = 0; i < text.size();) {
    const auto byte = static_cast<unsigned char>(text[i]);
    const size_t length = byte < 0x80   ? 1
                          : byte < 0xc2 ? 0
                          : byte < 0xe0 ? 2
                          : byte < 0xf0 ? 3
                          : byte < 0xf5 ? 4
                                        : 0;
    if (length == 0 || text.size() - i < length) return false;
    for (size_t j = 1; j < length; ++j) {
      if ((text[i + j] & 0xc0) != 0x80) return false;
    }
    const auto second =
        static_cast<unsigned char>(length > 1 ? text[i + 1] : 0);
    if ((byte == 0xe0 && second < 0xa0) || (byte == 0xed && second >= 0xa0) ||
        (byte == 0xf0 && second < 0x90) || (byte == 0xf4 && second >= 0x90)) {
      return false;
    }
    i += length;
  }
  return true;
}

}  // namespace

Outcome ClosedHandle(const char* kind, uint64_t handle) {
  return {OARLOCK_CLOSED,
          absl::StrCat("no open ", kind, " has the handle ", handle)};
}

Outcome Invalid(std::string message) {
  return {OARLOCK_INVALID_ARGUMENT, std::move(message)};
}

Outcome NullArgument(const char* name) {
  return Invalid(
      absl::StrCat(name, " is NULL; give where it is to be written"));
}

Outcome ToText(const char* text, size_t size, const char* name,
               std::string* to) {
  if (text == nullptr && size > 0) return NullArgument(name);
  if (size > kMaxTextBytes) {
    return Invalid(absl::StrCat(name, " has ", size, " bytes; legal are up to ",
                                kMaxTextBytes));
  }
  const std::string_view given(text == nullptr ? "" : text, size);
  if (!IsUtf8(given)) {
    return Invalid(
        absl::StrCat(name, " is no UTF-8; give text of that encoding"));
  }
  to->assign(given);
  return {};
}

Outcome ReadConfig(const char* config, size_t config_size,
                   google::protobuf::Message* to) {
  std::string text;
  const Outcome outcome = ToText(config, config_size, "config", &text);
  if (!outcome.ok()) return outcome;
  return FromJson(text, "config", to);
}

Outcome CopyOut(const std::string& text, char* buffer, size_t capacity,
                size_t* size) {
  if (size == nullptr) return NullArgument("size");
  *size = text.size();
  if (buffer == nullptr || capacity < text.size()) {
    return {OARLOCK_TOO_SMALL,
            absl::StrCat("the buffer has ", capacity, " bytes; ", text.size(),
                         " are needed")};
  }
  std::memcpy(buffer, text.data(), text.size());
  return {};
}

}  // namespace oarlock::capi
