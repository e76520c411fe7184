#include "base/check.h"

#include <execinfo.h>
#include <unistd.h>

#include <atomic>
#include <cstdio>
#include <cstdlib>

namespace oarlock {
namespace {

std::atomic<CheckFailureHandler> failure_handler = nullptr;

}  // namespace

void SetCheckFailureHandler(CheckFailureHandler handler) {
  failure_handler = handler;
}

void internal::CheckFailed(const char* file, int line, const char* what) {
  if (const CheckFailureHandler handler = failure_handler) {
    handler(file, line, what);
  }
  std::fprintf(stderr, "%s:%d: invariant broken: %s\n", file, line, what);
  void* frames[48];
  backtrace_symbols_fd(frames, backtrace(frames, 48), STDERR_FILENO);
  std::abort();
}

}  // namespace oarlock
