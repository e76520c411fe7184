// How the C library's allocator treats large buffers.

#ifndef OARLOCK_BASE_PROCESS_MALLOC_H_
#define OARLOCK_BASE_PROCESS_MALLOC_H_

namespace oarlock {

// Makes malloc keep freed memory instead of returning it to the system. With
// glibc's defaults each message of about 1 MB is mapped, faulted in page by
// page and unmapped again, which makes a pull three times slower. Does nothing
// with another C library or under a replaced allocator. Call once, first thing
// in main.
void KeepFreedMemory();

}  // namespace oarlock

#endif  // OARLOCK_BASE_PROCESS_MALLOC_H_
