// A broken invariant crashes, in production too. For what an outsider sends,
// return a status instead.

#ifndef OARLOCK_BASE_CHECK_H_
#define OARLOCK_BASE_CHECK_H_

namespace oarlock {

// A library in somebody else's process must not end it: `handler` is called
// instead, and throws. Of the whole process; null: aborts.
using CheckFailureHandler = void (*)(const char* file, int line,
                                     const char* what);
void SetCheckFailureHandler(CheckFailureHandler handler);

namespace internal {

// Prints the failed condition with its place and a stack trace, and aborts.
[[noreturn]] void CheckFailed(const char* file, int line, const char* what);

}  // namespace internal
}  // namespace oarlock

#define OARLOCK_CHECK(condition)                                        \
  do {                                                                  \
    if (__builtin_expect(!(condition), 0)) {                            \
      ::oarlock::internal::CheckFailed(__FILE__, __LINE__, #condition); \
    }                                                                   \
  } while (false)

#endif  // OARLOCK_BASE_CHECK_H_
