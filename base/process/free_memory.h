// What the system and the process's limit have left.

#ifndef OARLOCK_BASE_PROCESS_FREE_MEMORY_H_
#define OARLOCK_BASE_PROCESS_FREE_MEMORY_H_

#include <cstdint>

namespace oarlock {

// Memory that this process may still take: what the system has for programs,
// and what RLIMIT_AS (ulimit -v) leaves of the address space. 0: the system
// does not say.
uint64_t FreeMemoryBytes();

}  // namespace oarlock

#endif  // OARLOCK_BASE_PROCESS_FREE_MEMORY_H_
