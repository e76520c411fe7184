// Something that was begun and ends later.

#ifndef OARLOCK_CAPI_OPERATION_H_
#define OARLOCK_CAPI_OPERATION_H_

#include <atomic>
#include <functional>
#include <memory>
#include <string>
#include <utility>

#include "absl/base/thread_annotations.h"
#include "absl/synchronization/mutex.h"
#include "absl/time/time.h"
#include "base/clock.h"
#include "capi/outcome.h"

namespace oarlock::capi {

// Readable once an operation has ended: an eventfd. Thread-safe.
class EndEvent {
 public:
  // Throws std::system_error when there is no descriptor left.
  EndEvent();
  ~EndEvent();
  EndEvent(const EndEvent&) = delete;
  EndEvent& operator=(const EndEvent&) = delete;

  // Ends are told from now on.
  int descriptor() {
    wanted_ = true;
    return descriptor_;
  }
  void Notify() const;

 private:
  const int descriptor_;
  std::atomic<bool> wanted_ = false;
};

// Thread-safe.
class Operation {
 public:
  struct Options {
    // It may have changed something even if it is cancelled.
    bool has_effect = false;
    // It writes to arrays of the caller until it has ended.
    bool borrows = false;
  };

  // Waits by `clock`, which outlives this.
  Operation(std::shared_ptr<const EndEvent> event, const Options& options,
            const Clock& clock)
      : event_(std::move(event)), options_(options), clock_(clock) {}

  const Options& options() const { return options_; }

  // Ends it; the first call counts.
  void Finish(Outcome outcome, std::string result = "{}");
  // What Cancel calls, at once if Cancel was called before. Not called once the
  // operation has ended.
  void SetCancel(std::function<void()> cancel);
  void Cancel();

  bool done() const;
  // False: it has not ended within `timeout`.
  bool Wait(absl::Duration timeout) const;
  // REQUIRES: done().
  Outcome outcome() const;
  std::string result() const;

 private:
  const std::shared_ptr<const EndEvent> event_;
  const Options options_;
  const Clock& clock_;

  mutable absl::Mutex mutex_;
  bool done_ ABSL_GUARDED_BY(mutex_) = false;
  bool cancelled_ ABSL_GUARDED_BY(mutex_) = false;
  Outcome outcome_ ABSL_GUARDED_BY(mutex_);
  std::string result_ ABSL_GUARDED_BY(mutex_);
  std::function<void()> cancel_ ABSL_GUARDED_BY(mutex_);
};

}  // namespace oarlock::capi

#endif  // OARLOCK_CAPI_OPERATION_H_
