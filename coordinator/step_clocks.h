// How many steps each worker has finished, and who waits for the slowest (ssp).

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

// Not thread-safe: the coordinator guards it, and runs the replies when it has
// let go of its lock. Knows no bound: a worker asks to be told when the slowest
// has finished as many steps as its own bound demands.
//
// A member joins with as many steps as the slowest one has finished (none: 0),
// so the slowest of known members never falls behind by a join. Members that a
// successor of the coordinator does not know join with their next report.
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
  // The response when nobody is to wait.
  static v1::StepClockResponse Unlimited();

  // A call of the newest generation of the worker, as in
  // proto/v1/coordinator_service.proto. It waits until `deadline`; a later one
  // of the same worker that waits takes its place. Returns whom to answer now.
  Replies Call(const v1::StepClockRequest& request, absl::Time deadline,
               Done done);
  // The worker is gone: it is no longer waited for, its own wait is answered
  // with `why`.
  Replies Remove(WorkerIndex worker, const absl::Status& why);
  // Answers the waits whose deadline has come with what is known.
  Replies Expire(absl::Time now);
  // Answers all waits: nobody is to wait.
  Replies ReleaseAll();
  Replies AnswerAll(const absl::Status& status);

  uint64_t Slowest() const;

 private:
  struct Clock {
    uint64_t generation = 0;
    // Of the newest call that has changed something.
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
  // Takes the waiters out that `pick` picks, answered with what is known.
  template <typename Predicate>
  Replies Take(Predicate pick);

  // By worker.
  std::map<uint32_t, Clock> clocks_;
  // At most one per worker.
  std::list<Waiter> waiters_;
};

}  // namespace oarlock::coordinator

#endif  // OARLOCK_COORDINATOR_STEP_CLOCKS_H_
