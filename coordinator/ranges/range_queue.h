// The ranges of examples of each phase, the push completions of dead workers,
// and which worker has leased which of them.

#ifndef OARLOCK_COORDINATOR_RANGES_RANGE_QUEUE_H_
#define OARLOCK_COORDINATOR_RANGES_RANGE_QUEUE_H_

#include <cstddef>
#include <cstdint>
#include <deque>
#include <map>
#include <optional>
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

// Ranges and push completions of one phase that are claimed from a worker, or
// returned.
struct RangeShare {
  std::string phase_name;
  std::vector<v1::DataRange> ranges;
  std::vector<v1::PushCompletion> push_completions;
};

// Not thread-safe: the coordinator guards it.
//
// A range is unleased, leased to one worker generation, or done. A push
// completion is waiting, leased or done. Ranges are leased in the order of
// their definition, except that reclaimed ones go first. Push completions go
// before all ranges.
class RangeQueue {
 public:
  // Limits on the phases that a job defines, and that are unfinished at a time.
  static constexpr size_t kMaxPhases = 1 << 20;
  static constexpr size_t kMaxUnfinishedPhases = 64;
  static constexpr int kMaxRangesPerPhase = 1 << 20;
  static constexpr uint32_t kMaxRangesPerLease = 1024;
  static constexpr size_t kMaxNameBytes = 256;
  static constexpr size_t kMaxOrderBytes = 1024;
  static constexpr uint32_t kFirstNamedEpoch = uint32_t{1} << 31;

  // Defines a phase. The same definition again is OK and changes nothing.
  // AlreadyExists for another definition under the same name;
  // FailedPrecondition for another data order than the phase was begun with;
  // InvalidArgument for an illegal length of a name or data order;
  // ResourceExhausted beyond a limit.
  absl::Status Define(const v1::DefinePhaseRequest& request);

  // Records what the worker has done, then leases it the next push completions
  // and ranges, together at most `max_ranges`. The phase is exhausted when
  // nothing of it is left, leased or not.
  //
  // A call that repeats a request number gets the response of the first call.
  // InvalidArgument for the number 0, and for one that is kMaxLeaseCallSpan or
  // more below the worker's highest. Unavailable while the phase is not
  // defined.
  //
  // `stopped`: no ranges are leased, only push completions; the ranges that are
  // left stay. The phase is then exhausted when nothing is leased and no push
  // completion waits.
  //
  // `reported_all`, unless null: whether this call reported something as done
  // and the worker has no more ranges of the phase leased. False for a call
  // that repeats an earlier one.
  absl::StatusOr<v1::LeaseRangesResponse> Lease(
      const v1::LeaseRangesRequest& request, bool stopped = false,
      bool* reported_all = nullptr);

  // Claims what is leased to the generation of this worker, without ranges that
  // are covered. Forgets the worker's calls. Ascending by phase name and lease.
  std::vector<RangeShare> Claim(WorkerIndex worker, Generation generation);
  // Puts push completions and ranges to the front. They lose their lease
  // numbers. REQUIRES: the phase is defined.
  void Return(const RangeShare& share);
  // Claims and returns.
  void Reclaim(WorkerIndex worker, Generation generation);

  // Push completions that are waiting or leased, and the phases that they are
  // of, ascending.
  size_t num_push_completions() const;
  std::vector<std::string> NamesWithPushCompletions() const;
  // Phases with completions that the run before has left, and that are not
  // defined since.
  std::vector<v1::UnfinishedPhase> PhasesOfRunBefore() const;
  // Whether some of them complete pushes of this incarnation.
  bool HasPushCompletionsOf(WorkerIndex worker, Generation generation) const;

  // These examples have been trained for good. A later definition of the phase,
  // or a later reclaim, does not lease them. REQUIRES: the range has an end.
  void Cover(const std::string& phase_name, const v1::DataRange& range) {
    covered_[phase_name].Add(range);
  }
  // All covered examples, ascending.
  std::vector<v1::DataRange> Covered(const std::string& phase_name) const;

  // The data order that the phase was begun with, as in DefinePhaseRequest;
  // empty: none was given.
  std::string Order(const std::string& phase_name) const;
  void SetOrder(const std::string& phase_name, const std::string& order) {
    if (!order.empty()) orders_[phase_name] = order;
  }

  // The epoch that intervals of the phase's examples have in headers of pushes,
  // if they are pushed: N of "train/N", else a number of kFirstNamedEpoch or
  // more. And the phase of such an epoch.
  std::optional<uint32_t> EpochOf(const std::string& phase_name) const;
  std::string PhaseOfEpoch(uint32_t epoch) const;

  // Names of all phases that were defined.
  std::vector<std::string> names() const;
  // Whether the phase is defined, so that the same definition changes nothing.
  bool IsDefined(const std::string& phase_name) const {
    const auto found = phases_.find(phase_name);
    return found != phases_.end() &&
           found->second.fingerprint != kAnyDefinition;
  }
  // Whether the phase is defined and nothing of it is left (IsAllDone), or is
  // defined and had ranges (HadRanges).
  bool IsAllDone(const std::string& phase_name) const {
    return IsDefined(phase_name) && phases_.at(phase_name).AllDone();
  }
  bool HadRanges(const std::string& phase_name) const {
    return IsDefined(phase_name) && phases_.at(phase_name).num_ranges > 0;
  }
  // A new run begins: all workers are new, and their number and their batches
  // may differ. Forgets the phases for which `keep` is false. In the other
  // phases, what is left stays as it is, and the next definition may have other
  // ranges.
  void BeginRun(absl::FunctionRef<bool(const std::string& phase_name)> keep);

  // The next run of a job that stays begins, with phases of its own. Of those
  // before, push completions are left, until their phase is defined anew; all
  // that was leased has come back.
  void BeginNextRun();

  void Save(v1::RangeQueueState* state) const;
  // Replaces what is there.
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
    // Hash of the definition, to compare it with another.
    uint64_t fingerprint = kAnyDefinition;
    int num_ranges = 0;
    // Of the run before: its ranges are those of the next definition.
    bool completions_alone = false;
    // The last one is leased next.
    std::vector<v1::DataRange> unleased;
    // By number of the lease.
    std::map<uint64_t, LeasedRange> leased;
    // The first one is leased next.
    std::deque<v1::PushCompletion> push_completions;
    // By number of the lease.
    std::map<uint64_t, LeasedPushCompletion> leased_push_completions;

    bool AllDone() const { return unleased.empty() && NobodyWorks(); }
    // Nothing is leased, and no push completion waits.
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

  void SetRanges(const v1::DefinePhaseRequest& request, uint64_t fingerprint,
                 Phase* phase);
  // The parts of `ranges` that are not covered, in the same order.
  std::vector<v1::DataRange> Uncovered(
      const std::string& phase_name,
      const std::vector<v1::DataRange>& ranges) const;
  // Call after a change of `phase`. `was_done`: whether it was done before.
  void RecordChange(bool was_done, const Phase& phase);

  std::map<std::string, Phase> phases_;
  // By phase name. The phase need not be defined yet.
  std::map<std::string, RangeSet> covered_;
  std::map<std::string, std::string> orders_;
  // Epochs that are not in the phase's name. For good: no two phases of a job
  // have the same one.
  std::map<std::string, uint32_t> named_epochs_;
  size_t num_unfinished_ = 0;
  // By worker index.
  std::map<uint32_t, Caller> callers_;
  uint64_t next_lease_ = 1;
};

}  // namespace oarlock::coordinator

#endif  // OARLOCK_COORDINATOR_RANGES_RANGE_QUEUE_H_
