// Barriers of the workers of a job, by name.

#ifndef OARLOCK_COORDINATOR_BARRIERS_H_
#define OARLOCK_COORDINATOR_BARRIERS_H_

#include <cstddef>
#include <cstdint>
#include <list>
#include <map>
#include <set>
#include <string>
#include <vector>

#include "absl/functional/any_invocable.h"
#include "absl/status/status.h"
#include "absl/time/time.h"
#include "base/types.h"
#include "proto/state/coordinator_state.pb.h"

namespace oarlock::coordinator {

// Not thread-safe: the coordinator guards it, and runs the replies when it has
// let go of its lock.
//
// A barrier is passed once, for ever, when every worker that is waited for has
// arrived, and there is one. Who comes later passes at once.
class Barriers {
 public:
  using Done = absl::AnyInvocable<void(absl::Status)>;
  struct Reply {
    Done done;
    absl::Status status;
  };

  static constexpr size_t kMaxNames = 1 << 20;
  static constexpr size_t kMaxOpenNames = 1024;
  static constexpr size_t kMaxNameBytes = 256;

  // The worker arrives; `for_good`: also if it dies before the barrier is
  // passed. InvalidArgument for an illegal name, ResourceExhausted beyond a
  // limit. Arriving again changes nothing else.
  absl::Status Arrive(const std::string& name, WorkerIndex worker,
                      bool for_good);
  // OK to `done` when the barrier is passed, Unavailable at `deadline`. A
  // worker that waits again replaces its earlier wait, which is answered
  // Unavailable. REQUIRES: the worker has arrived.
  void Wait(const std::string& name, WorkerIndex worker, absl::Time deadline,
            Done done, std::vector<Reply>* replies);
  bool HasPassed(const std::string& name) const {
    return passed_.contains(name);
  }
  // The worker is no longer where it was: its arrivals at barriers that are
  // not passed, but for those for good, are void; its waits are answered with
  // `status`.
  void Withdraw(WorkerIndex worker, const absl::Status& status,
                std::vector<Reply>* replies);
  // Passes every barrier at which all of `waited_for` (by worker index) have
  // arrived.
  void Release(const std::vector<bool>& waited_for,
               std::vector<Reply>* replies);
  // Answers the waits whose deadline has come.
  void Expire(absl::Time now, std::vector<Reply>* replies);
  // Answers all waits.
  void AnswerAll(const absl::Status& status, std::vector<Reply>* replies);

  // Who has arrived where; waits are asked again by those who wait.
  void Save(v1::BarriersState* state) const;
  // Takes the place of what is there. REQUIRES: nobody waits.
  void Load(const v1::BarriersState& state);

 private:
  struct Waiter {
    std::string name;
    uint32_t worker = 0;
    absl::Time deadline;
    Done done;
  };
  // Answers and removes the waiters that `pick` picks.
  template <typename Predicate>
  void AnswerIf(Predicate pick, const absl::Status& status,
                std::vector<Reply>* replies);

  std::set<std::string> passed_;
  // Worker indices that have arrived, and whether for good, by name; none of
  // them is empty.
  std::map<std::string, std::map<uint32_t, bool>> open_;
  // At most one per open barrier and worker.
  std::list<Waiter> waiters_;
};

}  // namespace oarlock::coordinator

#endif  // OARLOCK_COORDINATOR_BARRIERS_H_
