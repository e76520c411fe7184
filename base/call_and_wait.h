// Waits for calls that report their outcome to a callback.

#ifndef OARLOCK_BASE_CALL_AND_WAIT_H_
#define OARLOCK_BASE_CALL_AND_WAIT_H_

#include <utility>

#include "absl/functional/any_invocable.h"
#include "absl/functional/function_ref.h"
#include "absl/status/status.h"
#include "absl/synchronization/notification.h"

namespace oarlock {

// Runs `start`, which makes a call, and returns the call's outcome: what it
// gives to `done`, in any thread, also before `start` returns. Blocks until
// then, so `done` must be called, once.
inline absl::Status CallAndWait(
    absl::FunctionRef<void(absl::AnyInvocable<void(absl::Status)> done)>
        start) {
  absl::Notification answered;
  absl::Status outcome;
  start([&](absl::Status status) {
    outcome = std::move(status);
    answered.Notify();
  });
  answered.WaitForNotification();
  return outcome;
}

}  // namespace oarlock

#endif  // OARLOCK_BASE_CALL_AND_WAIT_H_
