#include "coordinator/step_clocks.h"

#include <algorithm>
#include <iterator>
#include <utility>

namespace oarlock::coordinator {

v1::StepClockResponse StepClocks::Unlimited() {
  v1::StepClockResponse response;
  response.set_slowest(kNobody);
  return response;
}

StepClocks::Replies StepClocks::Call(const v1::StepClockRequest& request,
                                     absl::Time deadline, Done done) {
  Change(request);
  const uint32_t worker = request.worker_index();
  Replies replies;
  if (Slowest() >= request.awaited()) {
    replies.push_back({std::move(done), ResponseTo(worker)});
  } else {
    replies =
        Take([&](const Waiter& waiter) { return waiter.worker == worker; });
    waiters_.push_back({worker, request.awaited(), deadline, std::move(done)});
  }
  // The waiters for which the change was enough.
  Replies reached = Take([slowest = Slowest()](const Waiter& waiter) {
    return slowest >= waiter.awaited;
  });
  std::move(reached.begin(), reached.end(), std::back_inserter(replies));
  return replies;
}

void StepClocks::Change(const v1::StepClockRequest& request) {
  if (request.change() == v1::StepClockRequest::CHANGE_UNSPECIFIED) return;
  const uint64_t slowest = Slowest();
  Clock& clock = clocks_[request.worker_index()];
  if (clock.generation != request.worker_generation()) {
    clock = Clock{.generation = request.worker_generation()};
  }
  const bool reports = request.change() == v1::StepClockRequest::REPORT;
  // The reported number only grows, so the order of reports does not matter.
  if (reports && clock.member) {
    clock.finished = std::max(clock.finished, request.finished());
  }
  if (request.request() <= clock.request) return;
  clock.request = request.request();
  if (request.change() == v1::StepClockRequest::LEAVE) {
    clock.member = false;
  } else if (!clock.member) {
    clock.member = true;
    clock.finished = reports              ? request.finished()
                     : slowest == kNobody ? 0
                                          : slowest;
  }
}

StepClocks::Replies StepClocks::Remove(WorkerIndex worker,
                                       const absl::Status& why) {
  clocks_.erase(worker.value());
  Replies replies = Take(
      [&](const Waiter& waiter) { return waiter.worker == worker.value(); });
  for (Reply& reply : replies) reply.response = why;
  Replies reached = Take([slowest = Slowest()](const Waiter& waiter) {
    return slowest >= waiter.awaited;
  });
  std::move(reached.begin(), reached.end(), std::back_inserter(replies));
  return replies;
}

StepClocks::Replies StepClocks::Expire(absl::Time now) {
  return Take([now](const Waiter& waiter) { return waiter.deadline <= now; });
}

StepClocks::Replies StepClocks::ReleaseAll() {
  Replies replies = Take([](const Waiter&) { return true; });
  for (Reply& reply : replies) reply.response = Unlimited();
  return replies;
}

StepClocks::Replies StepClocks::AnswerAll(const absl::Status& status) {
  Replies replies = Take([](const Waiter&) { return true; });
  for (Reply& reply : replies) reply.response = status;
  return replies;
}

uint64_t StepClocks::Slowest() const {
  uint64_t slowest = kNobody;
  for (const auto& [worker, clock] : clocks_) {
    if (clock.member) slowest = std::min(slowest, clock.finished);
  }
  return slowest;
}

v1::StepClockResponse StepClocks::ResponseTo(uint32_t worker) const {
  v1::StepClockResponse response;
  response.set_slowest(Slowest());
  const auto found = clocks_.find(worker);
  if (found != clocks_.end()) response.set_finished(found->second.finished);
  return response;
}

template <typename Predicate>
StepClocks::Replies StepClocks::Take(Predicate pick) {
  Replies replies;
  for (auto it = waiters_.begin(); it != waiters_.end();) {
    if (!pick(*it)) {
      ++it;
      continue;
    }
    replies.push_back({std::move(it->done), ResponseTo(it->worker)});
    it = waiters_.erase(it);
  }
  return replies;
}

}  // namespace oarlock::coordinator
