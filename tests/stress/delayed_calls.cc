#include "tests/stress/delayed_calls.h"

#include <utility>

namespace oarlock {

DelayedCalls::DelayedCalls(const Clock& clock)
    : clock_(clock), thread_([this] { Run(); }) {}

void DelayedCalls::After(absl::Duration delay, Function function) {
  if (delay > absl::ZeroDuration()) {
    absl::MutexLock lock(&mutex_);
    if (!stop_) {
      waiting_.emplace(clock_.Now() + delay, std::move(function));
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
      const auto another = [&]() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_) {
        return stop_ || (!waiting_.empty() && waiting_.begin()->first < first);
      };
      mutex_.Await(absl::Condition(&another));
      // Until the first one is due, another one comes before it, or the end.
      while (!stop_ && waiting_.begin()->first > clock_.Now()) {
        first = waiting_.begin()->first;
        clock_.AwaitUntil(&mutex_, absl::Condition(&another), first);
      }
      if (waiting_.empty()) return;
      function = std::move(waiting_.begin()->second);
      waiting_.erase(waiting_.begin());
    }
    function();
  }
}

}  // namespace oarlock
