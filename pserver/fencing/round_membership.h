// Which workers contribute to sync rounds on this server.

#ifndef OARLOCK_PSERVER_FENCING_ROUND_MEMBERSHIP_H_
#define OARLOCK_PSERVER_FENCING_ROUND_MEMBERSHIP_H_

#include <cstdint>
#include <map>

#include "absl/base/thread_annotations.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/synchronization/mutex.h"
#include "base/types.h"
#include "proto/v1/coordinator_workers.pb.h"
#include "pserver/fencing/worker_fences.h"
#include "pserver/table/table_registry.h"

namespace oarlock::pserver {

// Thread-safe. The only caller of TableRegistry::SetRoundMember, and the only
// one of WorkerFences::Update: a worker that is fenced while it joins would
// otherwise stay a member that every round waits for.
class RoundMembership {
 public:
  // Both must outlive this.
  RoundMembership(WorkerFences* fences, TableRegistry* registry)
      : fences_(fences), registry_(registry) {}

  // A worker joins or leaves; returns the rounds that are complete. Joining is
  // refused as WorkerFences::CheckPush refuses a push; leaving is always OK.
  // `request` numbers the calls of a generation: what does not come after all
  // others of it changes nothing; 0 always does.
  absl::StatusOr<uint64_t> SetMember(WorkerIndex worker, Generation generation,
                                     bool joins, uint64_t request);
  // What the coordinator says: updates the fences, and generations that
  // are no longer alive leave the rounds.
  void Apply(const google::protobuf::RepeatedPtrField<v1::WorkerState>& states);

 private:
  struct Call {
    Generation generation;
    uint64_t request = 0;
  };

  // Whether a call changes nothing.
  bool IsLate(WorkerIndex worker, Generation generation, uint64_t request) const
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  void RecordCall(WorkerIndex worker, Generation generation, uint64_t request)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);

  WorkerFences* const fences_;
  TableRegistry* const registry_;
  absl::Mutex mutex_;
  // Generation of each worker that is a member.
  std::map<WorkerIndex, Generation> members_ ABSL_GUARDED_BY(mutex_);
  // The newest call of each worker's newest generation.
  std::map<WorkerIndex, Call> newest_ ABSL_GUARDED_BY(mutex_);
};

}  // namespace oarlock::pserver

#endif  // OARLOCK_PSERVER_FENCING_ROUND_MEMBERSHIP_H_
