// A process that crashes says where.

#ifndef OARLOCK_BASE_PROCESS_CRASH_HANDLER_H_
#define OARLOCK_BASE_PROCESS_CRASH_HANDLER_H_

namespace oarlock {

// From now on SIGSEGV, SIGABRT, SIGBUS, SIGFPE and SIGILL, in any thread, write
// the stack of that thread to standard error before they end the process as
// they would have done without this: the signal is the same, so is a core file.
// A line for each frame, innermost first: the function's name where the
// program has symbols, and always module+0xOFFSET for `addr2line -e MODULE`.
// When several threads crash at once the first one writes.
//
// A stack that has overflown is told for the calling thread alone, which gets
// an alternate stack; other threads need theirs to tell of themselves.
//
// Idempotent. Does nothing in a build with a sanitizer, which tells more.
// Call first thing in main, before other threads are started.
void InstallCrashHandler();

}  // namespace oarlock

#endif  // OARLOCK_BASE_PROCESS_CRASH_HANDLER_H_
