#include "capi/outcome.h"

#include <algorithm>
#include <cstring>

namespace oarlock::capi {

void Describe(oarlock_code code, std::string_view message,
              oarlock_error* error) {
  if (error == nullptr || code == OARLOCK_OK) return;
  constexpr std::string_view kCut = "...";
  constexpr size_t kCapacity = sizeof error->message - 1;
  error->code = code;
  size_t size = std::min(message.size(), kCapacity);
  std::memcpy(error->message, message.data(), size);
  if (size < message.size()) {
    size -= kCut.size();
    // Not within a character of several bytes.
    while (size > 0 && (error->message[size] & 0xc0) == 0x80) --size;
    std::memcpy(error->message + size, kCut.data(), kCut.size());
    size += kCut.size();
  }
  error->message[size] = '\0';
}

}  // namespace oarlock::capi
