// The ranges of examples of each phase, the partly applied
// pushes of dead workers, and who works on which.

#ifndef OARLOCK_COORDINATOR_RANGES_RANGE_QUEUE_H_
#define OARLOCK_COORDINATOR_RANGES_RANGE_QUEUE_H_

#include <cstddef>
#include <cstdint>
#include <deque>
#include <map>
#include <string>
#include <vector>

#include "absl/functional/function_ref.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "base/types.h"
#include "coordinator/ranges/range_set.h"
#include "proto/state/coordinator_state.pb.h"
#include "proto/v1/coordinator_ranges.pb.h"

namespace oarlock::coordinator {

// What is claimed from a worker, or returned, of one phase.
struct RangeShare {
  std::string phase_name;
  std::vector<v1::DataRange> ranges;
  std::vector<v1::PushCompletion> push_completions;
};

// Not thread-safe: the coordinator guards it.
//
// A range is unleased, leased to one worker generation, or done. Ranges are
// leased in the order of their definition; those that are reclaimed go first,
// and push completions before all ranges. A push completion is waiting, leased
// or done likewise.
class RangeQueue {
 public:
  // Phases that may be defined in a job, and that may be unfinished at a time.
  static constexpr size_t kMaxPhases = 1 << 20;
  static constexpr size_t kMaxUnfinishedPhases = 64;
  static constexpr int kMaxRangesPerPhase = 1 << 20;
  static constexpr uint32_t kMaxRangesPerLease = 1024;
  static constexpr size_t kMaxNameBytes = 256;
  static constexpr size_t kMaxOrderBytes = 1024;

  // The same definition again is OK and changes nothing; another one under
  // the same name is AlreadyExists; FailedPrecondition with another order than
  // the phase was begun with; ResourceExhausted beyond a limit.
  absl::Status Define(const v1::DefinePhaseRequest& request);

  // Records what the worker has done, then leases it the next push completions
  // and ranges, together at most as many as it wants. The phase is exhausted
  // when neither is left. A call that repeats a request number gets the first
  // call's response, or is InvalidArgument when the number is kMaxLeaseCallSpan
  // or more below the worker's highest. Unavailable while the phase is not
  // defined. `stopped`: no ranges, only push completions; exhausted when nobody
  // has any. The ranges that are left stay. `reported_all`, unless null:
  // whether this call, and no earlier one that it repeats, told that something
  // is done, and what it told was all that the worker had of the phase.
  absl::StatusOr<v1::LeaseRangesResponse> Lease(
      const v1::LeaseRangesRequest& request, bool stopped = false,
      bool* reported_all = nullptr);

  // Claims what is leased to the generation of this worker and, of ranges, not
  // covered; forgets its calls. Ascending by phase name and lease.
  std::vector<RangeShare> Claim(WorkerIndex worker, Generation generation);
  // Puts push completions and ranges to the front. Numbers of earlier leases
  // are dropped. REQUIRES: the phase is defined.
  void Return(const RangeShare& share);
  // Claims and returns.
  void Reclaim(WorkerIndex worker, Generation generation);

  // Push completions that are waiting or leased.
  size_t num_push_completions() const;
  // Some of them complete pushes of this incarnation.
  bool HasPushCompletionsOf(WorkerIndex worker, Generation generation) const;

  // These examples have been trained for good: they are not leased when the
  // phase is defined, or reclaimed, later. REQUIRES: the range has an end.
  void Cover(const std::string& phase_name, const v1::DataRange& range) {
    covered_[phase_name].Add(range);
  }
  // All of them, ascending.
  std::vector<v1::DataRange> Covered(const std::string& phase_name) const;

  // The order that the phase was begun with, as DefinePhaseRequest has it;
  // empty: none was told.
  std::string Order(const std::string& phase_name) const;
  void SetOrder(const std::string& phase_name, const std::string& order) {
    if (!order.empty()) orders_[phase_name] = order;
  }

  // Names of all phases that were defined.
  std::vector<std::string> names() const;
  // Defining it again changes nothing.
  bool IsDefined(const std::string& phase_name) const {
    const auto found = phases_.find(phase_name);
    return found != phases_.end() &&
           found->second.fingerprint != kAnyDefinition;
  }
  // It is defined and nothing of it is left; and it was defined with ranges.
  bool IsAllDone(const std::string& phase_name) const {
    return IsDefined(phase_name) && phases_.at(phase_name).AllDone();
  }
  bool HadRanges(const std::string& phase_name) const {
    return IsDefined(phase_name) && phases_.at(phase_name).num_ranges > 0;
  }
  // All workers are new, and their number and their batches may be others.
  // Forgets phases that `keep` does not name; of the others what is left stays
  // as it is, and whoever defines one next may do so with other ranges.
  void BeginRun(absl::FunctionRef<bool(const std::string& phase_name)> keep);

  void Save(v1::RangeQueueState* state) const;
  // Takes the place of what is there.
  void Load(const v1::RangeQueueState& state);

 private:
  struct LeasedRange {
    v1::DataRange range;
    uint32_t worker = 0;
    uint64_t generation = 0;
  };
  struct LeasedPushCompletion {
    v1::PushCompletion completion;
    uint32_t worker = 0;
    uint64_t generation = 0;
  };
  // A fingerprint that no definition has.
  static constexpr uint64_t kAnyDefinition = 0;
  struct Phase {
    // Of the definition, to tell the same from another.
    uint64_t fingerprint = kAnyDefinition;
    int num_ranges = 0;
    // The next one last.
    std::vector<v1::DataRange> unleased;
    // By number of the lease.
    std::map<uint64_t, LeasedRange> leased;
    // The next one first.
    std::deque<v1::PushCompletion> push_completions;
    // By number of the lease.
    std::map<uint64_t, LeasedPushCompletion> leased_push_completions;

    bool AllDone() const { return unleased.empty() && NobodyWorks(); }
    // Nor has to.
    bool NobodyWorks() const {
      return leased.empty() && push_completions.empty() &&
             leased_push_completions.empty();
    }
  };
  struct Call {
    uint64_t request = 0;
    v1::LeaseRangesResponse response;
  };
  struct Caller {
    uint64_t generation = 0;
    // The responses to the highest kMaxLeaseCallSpan numbers.
    std::deque<Call> calls;
    uint64_t highest = 0;
  };

  // Those parts of `ranges` that are not covered, in the same order.
  std::vector<v1::DataRange> Uncovered(
      const std::string& phase_name,
      const std::vector<v1::DataRange>& ranges) const;
  // After a change of `phase`, which was done before it or not.
  void RecordChange(bool was_done, const Phase& phase);

  std::map<std::string, Phase> phases_;
  // By phase name; the phase may be yet to be defined.
  std::map<std::string, RangeSet> covered_;
  std::map<std::string, std::string> orders_;
  size_t num_unfinished_ = 0;
  // By worker index.
  std::map<uint32_t, Caller> callers_;
  uint64_t next_lease_ = 1;
};

}  // namespace oarlock::coordinator

#endif  // OARLOCK_COORDINATOR_RANGES_RANGE_QUEUE_H_
