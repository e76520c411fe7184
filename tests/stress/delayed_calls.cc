#include "tests/stress/delayed_calls.h"

#include <utility>

#include "base/clock.h"

namespace oarlock {

DelayedCalls::DelayedCalls() : thread_([this] { Run(); }) {}

void DelayedCalls::After(absl::Duration delay, Function function) {
  if (delay > absl::ZeroDuration()) {
    absl::MutexLock lock(&mutex_);
    if (!stop_) {
      waiting_.emplace(Clock::Real().Now() + delay, std::move(function));
      return;
    }
  }
  function();
}

void DelayedCalls::Stop() {
  {
    absl::MutexLock lock(&mutex_);
    stop_ = true;
  }
  if (thread_.joinable()) thread_.join();
}

void DelayedCalls::Run() {
  for (;;) {
    Function function;
    {
      absl::MutexLock lock(&mutex_);
      absl::Time first = absl::InfiniteFuture();
      const auto due = [&]() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_) {
        return stop_ || (!waiting_.empty() && waiting_.begin()->first < first);
      };
      // Until the first one is due, another one comes before it, or the end.
      while (!stop_ && (waiting_.empty() ||
                        waiting_.begin()->first > Clock::Real().Now())) {
        first =
            waiting_.empty() ? absl::InfiniteFuture() : waiting_.begin()->first;
        mutex_.AwaitWithDeadline(absl::Condition(&due), first);
      }
      if (waiting_.empty()) return;
      function = std::move(waiting_.begin()->second);
      waiting_.erase(waiting_.begin());
    }
    function();
  }
}

}  // namespace oarlock
