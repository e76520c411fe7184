// What the system has left.

#ifndef OARLOCK_BASE_PROCESS_FREE_MEMORY_H_
#define OARLOCK_BASE_PROCESS_FREE_MEMORY_H_

#include <cstdint>

namespace oarlock {

// Memory that programs may still take; 0: the system does not say.
uint64_t FreeMemoryBytes();

}  // namespace oarlock

#endif  // OARLOCK_BASE_PROCESS_FREE_MEMORY_H_
