// Limits texts from other processes that the coordinator keeps and shows.

#ifndef OARLOCK_COORDINATOR_TRUNCATED_H_
#define OARLOCK_COORDINATOR_TRUNCATED_H_

#include <cstddef>
#include <string>

#include "base/log.h"

namespace oarlock::coordinator {

// The text up to its 1024th byte, control characters escaped.
inline std::string Truncated(const std::string& text) {
  constexpr size_t kMaxTextBytes = 1024;
  return OneLogLine(text.substr(0, kMaxTextBytes));
}

}  // namespace oarlock::coordinator

#endif  // OARLOCK_COORDINATOR_TRUNCATED_H_
