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
#include "absl/functional/function_ref.h"
#include "absl/status/status.h"
#include "absl/time/time.h"
#include "base/types.h"
#include "proto/state/coordinator_state.pb.h"

namespace oarlock::coordinator {

// Not thread-safe: the coordinator guards it, and runs the replies after it has
// released its lock.
//
// A barrier is passed once and stays passed. It is passed when at least one
// worker is waited for and every worker that is waited for has arrived. A
// worker that arrives later passes at once.
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

  // The worker arrives. `for_good`: the arrival counts even if the worker dies
  // before the barrier is passed. InvalidArgument for an illegal name,
  // ResourceExhausted beyond a limit. Arriving again can only make an arrival
  // one for good.
  absl::Status Arrive(const std::string& name, WorkerIndex worker,
                      bool for_good);
  // `done` gets OK when the barrier is passed, and Unavailable at `deadline`. A
  // worker that waits again at the same barrier replaces its earlier wait,
  // which gets Unavailable. REQUIRES: the worker has arrived.
  void Wait(const std::string& name, WorkerIndex worker, absl::Time deadline,
            Done done, std::vector<Reply>* replies);
  bool HasPassed(const std::string& name) const {
    return passed_.contains(name);
  }
  // This incarnation of the worker is gone. Its arrivals at barriers that are
  // not passed are void, except those for good. Its waits get `status`.
  void Withdraw(WorkerIndex worker, const absl::Status& status,
                std::vector<Reply>* replies);
  // Passes every barrier at which all of `waited_for` (by worker index) have
  // arrived, and of which `may_pass` is true.
  void Release(const std::vector<bool>& waited_for,
               absl::FunctionRef<bool(const std::string& name)> may_pass,
               std::vector<Reply>* replies);
  // All of `waited_for` wait, and not at one barrier: "worker 0 at 'train/1',
  // worker 1 at 'summary'". Else empty.
  std::string Deadlock(const std::vector<bool>& waited_for) const;
  // Answers the waits whose deadline has come.
  void Expire(absl::Time now, std::vector<Reply>* replies);
  // Answers all waits.
  void AnswerAll(const absl::Status& status, std::vector<Reply>* replies);

  // Saves which workers have arrived where, and wait. The calls that wait are
  // not saved: the workers call again.
  void Save(v1::BarriersState* state) const;
  // Replaces what is there. REQUIRES: no call waits.
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
  // By name: the indices of the workers that have arrived, and whether for
  // good. No entry is empty.
  std::map<std::string, std::map<uint32_t, bool>> open_;
  // At most one per open barrier and worker.
  std::list<Waiter> waiters_;
  // By worker: the open barrier at which it waited last, and waits again when
  // that wait is over.
  std::map<uint32_t, std::string> waits_at_;
};

}  // namespace oarlock::coordinator

#endif  // OARLOCK_COORDINATOR_BARRIERS_H_
