// Logging is spdlog; this file only says what a line looks like.

#ifndef OARLOCK_BASE_LOG_H_
#define OARLOCK_BASE_LOG_H_

#include <spdlog/spdlog.h>

#include <string>
#include <string_view>

namespace oarlock {

// The message as a line shows it. Parts of it may come from others: control
// characters are escaped, and so are line breaks without the four blanks that
// make the next line part of this one. What is beyond 8 KiB is left out and
// counted.
std::string OneLogLine(std::string_view message);

// Lines go to standard error as "time level role message", each flushed.
// `role` is "server 0", "worker 1", "local" ... Call once, from main.
void InitLogging(std::string_view role);

}  // namespace oarlock

#endif  // OARLOCK_BASE_LOG_H_
