#include "capi/operation.h"

#include <sys/eventfd.h>
#include <unistd.h>

#include <cerrno>
#include <cstdint>
#include <system_error>

namespace oarlock::capi {

EndEvent::EndEvent() : descriptor_(eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK)) {
  if (descriptor_ < 0) {
    throw std::system_error(errno, std::generic_category(), "eventfd");
  }
}

EndEvent::~EndEvent() { close(descriptor_); }

void EndEvent::Notify() const {
  if (!wanted_) return;
  const uint64_t one = 1;
  // It fails when 2^64 - 2 ends were not read, and is readable then.
  [[maybe_unused]] const ssize_t written = write(descriptor_, &one, sizeof one);
}

void Operation::Finish(Outcome outcome, std::string result) {
  // What it keeps may end with it, without the lock.
  std::function<void()> cancel;
  {
    absl::MutexLock lock(&mutex_);
    if (done_) return;
    outcome_ = std::move(outcome);
    result_ = std::move(result);
    done_ = true;
    cancel.swap(cancel_);
  }
  event_->Notify();
}

void Operation::SetCancel(std::function<void()> cancel) {
  {
    absl::MutexLock lock(&mutex_);
    if (done_) return;
    if (!cancelled_) {
      cancel_ = std::move(cancel);
      return;
    }
  }
  cancel();
}

void Operation::Cancel() {
  std::function<void()> cancel;
  {
    absl::MutexLock lock(&mutex_);
    if (done_ || cancelled_) return;
    cancelled_ = true;
    cancel.swap(cancel_);
  }
  if (cancel) cancel();
}

bool Operation::done() const {
  absl::MutexLock lock(&mutex_);
  return done_;
}

bool Operation::Wait(absl::Duration timeout) const {
  absl::MutexLock lock(&mutex_);
  return clock_.AwaitFor(&mutex_, absl::Condition(&done_), timeout);
}

Outcome Operation::outcome() const {
  absl::MutexLock lock(&mutex_);
  return outcome_;
}

std::string Operation::result() const {
  absl::MutexLock lock(&mutex_);
  return result_;
}

}  // namespace oarlock::capi
