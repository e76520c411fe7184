// For files that stand before functions of a shared library.

#ifndef OARLOCK_TESTS_TSAN_NEXT_DEFINITION_H_
#define OARLOCK_TESTS_TSAN_NEXT_DEFINITION_H_

#include <dlfcn.h>

namespace oarlock {

// The definition of the symbol `name` that the program would use without the
// one that calls this.
template <typename Function>
Function* NextDefinition(const char* name) {
  void* const symbol = dlsym(RTLD_NEXT, name);
  if (symbol == nullptr) __builtin_trap();
  return reinterpret_cast<Function*>(symbol);
}

}  // namespace oarlock

#endif  // OARLOCK_TESTS_TSAN_NEXT_DEFINITION_H_
