// Logging is spdlog; this file says where lines go and what they look like.

#ifndef OARLOCK_BASE_LOG_H_
#define OARLOCK_BASE_LOG_H_

#include <spdlog/spdlog.h>

#include <memory>
#include <string>
#include <string_view>

namespace oarlock {

// Where Oarlock's lines go: Log().info("{} rows", n). Not spdlog's default
// logger, which belongs to the program that Oarlock is a part of. Standard
// error until one of the functions below says otherwise.
spdlog::logger& Log();
// Those who have Log()'s reference keep using the one before: it stays for as
// long as the process. Returns the one before.
std::shared_ptr<spdlog::logger> SetLog(std::shared_ptr<spdlog::logger> logger);

// The message as a line shows it. Parts of it may come from others: control
// characters are escaped, and so are line breaks without the four blanks that
// make the next line part of this one. What is beyond 8 KiB is left out and
// counted.
std::string OneLogLine(std::string_view message);

// Lines go to standard error as "time level role message", each flushed.
// `role` is "server 0", "worker 1", "local" ... Call once, from main.
void InitLogging(std::string_view role);

// The same for a process that others depend on while nobody may be reading what
// it writes: no line waits for the reader. Up to 1 MiB waits to be read, what
// is beyond is left out and counted. What waits is written with the next line,
// or Log().flush().
void InitPatientLogging(std::string_view role);

}  // namespace oarlock

#endif  // OARLOCK_BASE_LOG_H_
