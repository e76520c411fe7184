// Steps of the workers of a job in ssp mode. They are in no log: members report
// them again, so a successor of the coordinator has them soon after its start.

#include <algorithm>
#include <utility>
#include <vector>

#include "coordinator/coordinator.h"

namespace oarlock::coordinator {

void Coordinator::StepClock(const v1::StepClockRequest& request,
                            StepClocks::Done done) {
  Replies replies;
  {
    absl::MutexLock lock(&mutex_);
    const absl::StatusOr<WorkerRecord*> worker =
        Check(request.worker_index(), request.worker_generation());
    const absl::Status refused =
        shut_down_ ? absl::UnavailableError("the server is going away")
                   : worker.status();
    if (refused.ok() && (job_.ending || !(*worker)->alive())) {
      std::vector<StepClocks::Reply> reply;
      reply.push_back({std::move(done), StepClocks::Unlimited()});
      Append(std::move(reply), &replies);
    } else if (refused.ok()) {
      const absl::Time deadline =
          clock_.Now() +
          std::min(absl::Milliseconds(request.wait_ms()), kMaxBarrierWait);
      Append(steps_.Call(request, deadline, std::move(done)), &replies);
    } else {
      replies.push_back({[done = std::move(done)](absl::Status status) mutable {
                           done(std::move(status));
                         },
                         refused});
    }
  }
  Run(std::move(replies));
}

void Coordinator::Append(std::vector<StepClocks::Reply> steps,
                         Replies* replies) {
  for (StepClocks::Reply& step : steps) {
    replies->push_back(
        {[done = std::move(step.done), response = std::move(step.response)](
             const absl::Status&) mutable { done(std::move(response)); },
         absl::OkStatus()});
  }
}

}  // namespace oarlock::coordinator
