// Logging is spdlog; this file only says what a line looks like.

#ifndef OARLOCK_BASE_LOG_H_
#define OARLOCK_BASE_LOG_H_

#include <spdlog/spdlog.h>

#include <string_view>

namespace oarlock {

// Lines go to standard error as "time level role message", each flushed.
// `role` is "server 0", "worker 1", "local" ... Call once, from main.
void InitLogging(std::string_view role);

}  // namespace oarlock

#endif  // OARLOCK_BASE_LOG_H_
