// Debian's Abseil is not instrumented, so tsan does not see that absl::Mutex
// orders what threads do and reports races where there are none. Under tsan
// this file stands before Abseil's own functions, tells tsan, and calls them;
// in other builds it is empty. Linked into a test, it works for the code under
// test, for gRPC and for Abseil itself.
//
// Conditions are evaluated by whichever thread lets go of the mutex, still
// holding it but after tsan was told; what they read there is ignored.

#if defined(__SANITIZE_THREAD__)

#include <sanitizer/tsan_interface.h>

#include "absl/synchronization/mutex.h"
#include "absl/time/time.h"
#include "tests/tsan/next_definition.h"

extern "C" void AnnotateIgnoreReadsBegin(const char* file, int line);
extern "C" void AnnotateIgnoreReadsEnd(const char* file, int line);

namespace absl {
ABSL_NAMESPACE_BEGIN
namespace {

class IgnoreReads {
 public:
  IgnoreReads() { AnnotateIgnoreReadsBegin(__FILE__, __LINE__); }
  ~IgnoreReads() { AnnotateIgnoreReadsEnd(__FILE__, __LINE__); }
};

}  // namespace

void Mutex::Lock() {
  static auto* const next =
      oarlock::NextDefinition<void(Mutex*)>("_ZN4absl7debian35Mutex4LockEv");
  const IgnoreReads ignore;
  next(this);
  __tsan_acquire(this);
}

void Mutex::Unlock() {
  static auto* const next =
      oarlock::NextDefinition<void(Mutex*)>("_ZN4absl7debian35Mutex6UnlockEv");
  __tsan_release(this);
  const IgnoreReads ignore;
  next(this);
}

bool Mutex::TryLock() {
  static auto* const next =
      oarlock::NextDefinition<bool(Mutex*)>("_ZN4absl7debian35Mutex7TryLockEv");
  const IgnoreReads ignore;
  const bool locked = next(this);
  if (locked) __tsan_acquire(this);
  return locked;
}

void Mutex::ReaderLock() {
  static auto* const next = oarlock::NextDefinition<void(Mutex*)>(
      "_ZN4absl7debian35Mutex10ReaderLockEv");
  const IgnoreReads ignore;
  next(this);
  __tsan_acquire(this);
}

void Mutex::ReaderUnlock() {
  static auto* const next = oarlock::NextDefinition<void(Mutex*)>(
      "_ZN4absl7debian35Mutex12ReaderUnlockEv");
  __tsan_release(this);
  const IgnoreReads ignore;
  next(this);
}

void Mutex::LockWhen(const Condition& condition) {
  static auto* const next =
      oarlock::NextDefinition<void(Mutex*, const Condition&)>(
          "_ZN4absl7debian35Mutex8LockWhenERKNS0_9ConditionE");
  const IgnoreReads ignore;
  next(this, condition);
  __tsan_acquire(this);
}

void Mutex::Await(const Condition& condition) {
  static auto* const next =
      oarlock::NextDefinition<void(Mutex*, const Condition&)>(
          "_ZN4absl7debian35Mutex5AwaitERKNS0_9ConditionE");
  __tsan_release(this);
  const IgnoreReads ignore;
  next(this, condition);
  __tsan_acquire(this);
}

bool Mutex::AwaitWithTimeout(const Condition& condition, Duration timeout) {
  static auto* const next =
      oarlock::NextDefinition<bool(Mutex*, const Condition&, Duration)>(
          "_ZN4absl7debian35Mutex16AwaitWithTimeoutERKNS0_9ConditionENS0_"
          "8DurationE");
  __tsan_release(this);
  const IgnoreReads ignore;
  const bool result = next(this, condition, timeout);
  __tsan_acquire(this);
  return result;
}

bool Mutex::AwaitWithDeadline(const Condition& condition, Time deadline) {
  static auto* const next = oarlock::NextDefinition<bool(
      Mutex*, const Condition&, Time)>(
      "_ZN4absl7debian35Mutex17AwaitWithDeadlineERKNS0_9ConditionENS0_4TimeE");
  __tsan_release(this);
  const IgnoreReads ignore;
  const bool result = next(this, condition, deadline);
  __tsan_acquire(this);
  return result;
}

bool Mutex::LockWhenWithTimeout(const Condition& condition, Duration timeout) {
  static auto* const next =
      oarlock::NextDefinition<bool(Mutex*, const Condition&, Duration)>(
          "_ZN4absl7debian35Mutex19LockWhenWithTimeoutERKNS0_9ConditionENS0_"
          "8DurationE");
  const IgnoreReads ignore;
  const bool result = next(this, condition, timeout);
  __tsan_acquire(this);
  return result;
}

bool Mutex::LockWhenWithDeadline(const Condition& condition, Time deadline) {
  static auto* const next =
      oarlock::NextDefinition<bool(Mutex*, const Condition&, Time)>(
          "_ZN4absl7debian35Mutex20LockWhenWithDeadlineERKNS0_9ConditionENS0_"
          "4TimeE");
  const IgnoreReads ignore;
  const bool result = next(this, condition, deadline);
  __tsan_acquire(this);
  return result;
}

void CondVar::Wait(Mutex* mutex) {
  static auto* const next = oarlock::NextDefinition<void(CondVar*, Mutex*)>(
      "_ZN4absl7debian37CondVar4WaitEPNS0_5MutexE");
  __tsan_release(mutex);
  const IgnoreReads ignore;
  next(this, mutex);
  __tsan_acquire(mutex);
}

bool CondVar::WaitWithTimeout(Mutex* mutex, Duration timeout) {
  static auto* const next = oarlock::NextDefinition<bool(CondVar*, Mutex*,
                                                         Duration)>(
      "_ZN4absl7debian37CondVar15WaitWithTimeoutEPNS0_5MutexENS0_8DurationE");
  __tsan_release(mutex);
  const IgnoreReads ignore;
  const bool result = next(this, mutex, timeout);
  __tsan_acquire(mutex);
  return result;
}

bool CondVar::WaitWithDeadline(Mutex* mutex, Time deadline) {
  static auto* const next =
      oarlock::NextDefinition<bool(CondVar*, Mutex*, Time)>(
          "_ZN4absl7debian37CondVar16WaitWithDeadlineEPNS0_5MutexENS0_4TimeE");
  __tsan_release(mutex);
  const IgnoreReads ignore;
  const bool result = next(this, mutex, deadline);
  __tsan_acquire(mutex);
  return result;
}

ABSL_NAMESPACE_END
}  // namespace absl

#endif  // defined(__SANITIZE_THREAD__)
