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
// one of WorkerFences::Update. Otherwise a worker that is fenced while it joins
// would stay a member, and every round would wait for it.
class RoundMembership {
 public:
  // Both must outlive this.
  RoundMembership(WorkerFences* fences, TableRegistry* registry)
      : fences_(fences), registry_(registry) {}

  // A worker joins or leaves; returns the number of complete rounds. Joining is
  // refused as WorkerFences::CheckPush refuses a push; leaving is always OK.
  // `request` numbers the calls of a generation: a number that is not above all
  // earlier ones changes nothing. The number 0 is always accepted.
  absl::StatusOr<uint64_t> SetMember(WorkerIndex worker, Generation generation,
                                     bool joins, uint64_t request);
  // Applies the coordinator's states: updates the fences, and removes from the
  // rounds generations that are no longer alive.
  void Apply(const google::protobuf::RepeatedPtrField<v1::WorkerState>& states);
  // Whether Apply has removed this incarnation, which had not left.
  bool WasRemoved(WorkerIndex worker, Generation generation) const;

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
  mutable absl::Mutex mutex_;
  // The newest removed generation of each worker.
  std::map<WorkerIndex, Generation> removed_ ABSL_GUARDED_BY(mutex_);
  // Generation of each worker that is a member.
  std::map<WorkerIndex, Generation> members_ ABSL_GUARDED_BY(mutex_);
  // The newest call of each worker's newest generation.
  std::map<WorkerIndex, Call> newest_ ABSL_GUARDED_BY(mutex_);
};

}  // namespace oarlock::pserver

#endif  // OARLOCK_PSERVER_FENCING_ROUND_MEMBERSHIP_H_
