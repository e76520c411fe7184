// What all clients of a process share: whose process it is, where lines go, and
// what a broken invariant does.

#ifndef OARLOCK_CAPI_LIBRARY_H_
#define OARLOCK_CAPI_LIBRARY_H_

#include <cstdint>
#include <optional>
#include <stdexcept>
#include <string>

#include "capi/include/oarlock/oarlock.h"
#include "capi/outcome.h"

namespace oarlock::capi {

// Thrown by OARLOCK_CHECK once UseLibrary was called.
class BrokenInvariant : public std::runtime_error {
 public:
  using std::runtime_error::runtime_error;
};

// Call before the first client is made; the first call counts. From then on
// this process alone may use the library, lines go to LogRing, and a broken
// invariant throws.
void UseLibrary();
// Whether this process was forked from the one that called UseLibrary.
bool InForkedChild();
inline constexpr char kForkedMessage[] =
    "this process was forked from one that uses Oarlock; use Oarlock in the "
    "parent alone, or start processes by spawn or forkserver";

struct LogLine {
  std::string text;
  // 0 info, 1 warning, 2 error.
  int32_t level = 0;
};
// The oldest line that nobody has taken; the newest 1,000 are kept.
std::optional<LogLine> TakeLogLine();

// Runs a call of the interface: calls `run`, which returns an Outcome, unless
// the process was forked, and turns exceptions into codes. `on_broken` gets the
// text of a broken invariant.
template <typename Run, typename OnBroken>
oarlock_code Guarded(oarlock_error* error, Run run, OnBroken on_broken) {
  if (InForkedChild()) {
    Describe(OARLOCK_FORKED, kForkedMessage, error);
    return OARLOCK_FORKED;
  }
  try {
    const Outcome outcome = run();
    Describe(outcome.code, outcome.message, error);
    return outcome.code;
  } catch (const BrokenInvariant& broken) {
    on_broken(broken.what());
    Describe(OARLOCK_BROKEN, broken.what(), error);
    return OARLOCK_BROKEN;
  } catch (const std::bad_alloc&) {
    Describe(OARLOCK_RESOURCE_EXHAUSTED, "no memory is left", error);
    return OARLOCK_RESOURCE_EXHAUSTED;
  } catch (const std::system_error& failure) {
    Describe(OARLOCK_RESOURCE_EXHAUSTED, failure.what(), error);
    return OARLOCK_RESOURCE_EXHAUSTED;
  } catch (const std::exception& failure) {
    Describe(OARLOCK_INTERNAL, failure.what(), error);
    return OARLOCK_INTERNAL;
  }
}

}  // namespace oarlock::capi

#endif  // OARLOCK_CAPI_LIBRARY_H_
