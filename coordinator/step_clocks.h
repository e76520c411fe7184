// How many steps each worker has finished, and which workers wait for the
// slowest (ssp).

#ifndef OARLOCK_COORDINATOR_STEP_CLOCKS_H_
#define OARLOCK_COORDINATOR_STEP_CLOCKS_H_

#include <cstdint>
#include <list>
#include <map>
#include <vector>

#include "absl/functional/any_invocable.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "base/types.h"
#include "proto/v1/coordinator_workers.pb.h"

namespace oarlock::coordinator {

// Not thread-safe: the coordinator guards it, and runs the replies after it has
// released its lock. It has no staleness bound: in a call, a worker names the
// number of steps that the slowest worker must have finished.
//
// A member joins with the number of steps that the slowest member has finished,
// 0 if there is no member. So a join never lowers the steps of the slowest
// known member. A successor of the coordinator begins without members; they
// join with their next report.
class StepClocks {
 public:
  using Done = absl::AnyInvocable<void(absl::StatusOr<v1::StepClockResponse>)>;
  struct Reply {
    Done done;
    absl::StatusOr<v1::StepClockResponse> response;
  };
  using Replies = std::vector<Reply>;

  // Steps of the slowest where there is no member.
  static constexpr uint64_t kNobody = ~uint64_t{0};
  // The response when no worker has to wait.
  static v1::StepClockResponse Unlimited();

  // Takes a call of the newest generation of the worker, as in
  // proto/v1/coordinator_service.proto. The call waits until `deadline`. A
  // later waiting call of the same worker replaces it. Returns the replies that
  // are due now.
  Replies Call(const v1::StepClockRequest& request, absl::Time deadline,
               Done done);
  // The worker is gone: others no longer wait for it, and its own wait is
  // answered with `why`.
  Replies Remove(WorkerIndex worker, const absl::Status& why);
  // Answers the waits whose deadline has come, with the present step counts.
  Replies Expire(absl::Time now);
  // Answers all waits: no worker has to wait.
  Replies ReleaseAll();
  Replies AnswerAll(const absl::Status& status);

  uint64_t Slowest() const;

 private:
  struct Clock {
    uint64_t generation = 0;
    // Number of the newest call that has changed something.
    uint64_t request = 0;
    bool member = false;
    uint64_t finished = 0;
  };
  struct Waiter {
    uint32_t worker = 0;
    uint64_t awaited = 0;
    absl::Time deadline;
    Done done;
  };

  void Change(const v1::StepClockRequest& request);
  v1::StepClockResponse ResponseTo(uint32_t worker) const;
  // Removes the waiters for which `pick` is true; returns their replies, with
  // the present step counts.
  template <typename Predicate>
  Replies Take(Predicate pick);

  // By worker.
  std::map<uint32_t, Clock> clocks_;
  // At most one per worker.
  std::list<Waiter> waiters_;
};

}  // namespace oarlock::coordinator

#endif  // OARLOCK_COORDINATOR_STEP_CLOCKS_H_
