// Limits the length of texts from other processes that the coordinator keeps.

#ifndef OARLOCK_COORDINATOR_TRUNCATED_H_
#define OARLOCK_COORDINATOR_TRUNCATED_H_

#include <cstddef>
#include <string>

namespace oarlock::coordinator {

// The text up to its 1024th byte.
inline std::string Truncated(const std::string& text) {
  constexpr size_t kMaxTextBytes = 1024;
  return text.substr(0, kMaxTextBytes);
}

}  // namespace oarlock::coordinator

#endif  // OARLOCK_COORDINATOR_TRUNCATED_H_
