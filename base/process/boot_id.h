// Which start of the operating system this is.

#ifndef OARLOCK_BASE_PROCESS_BOOT_ID_H_
#define OARLOCK_BASE_PROCESS_BOOT_ID_H_

#include <string>

namespace oarlock {

// The kernel's random number of this boot, as text; the same for all processes
// and containers of the machine until it is started anew. Empty where the
// kernel does not tell.
std::string BootId();

}  // namespace oarlock

#endif  // OARLOCK_BASE_PROCESS_BOOT_ID_H_
