// What becomes of the examples that a worker had when it died, asynchronous
// mode (docs/design/0010-deaths-of-workers-and-coordinator.md).

#ifndef OARLOCK_COORDINATOR_DEAD_WORKER_RECOVERY_H_
#define OARLOCK_COORDINATOR_DEAD_WORKER_RECOVERY_H_

#include <cstdint>
#include <map>
#include <vector>

#include "base/types.h"
#include "proto/v1/coordinator_ranges.pb.h"
#include "proto/v1/coordinator_servers.pb.h"

namespace oarlock::coordinator {

// What an incarnation has of one epoch and did not say that it is done.
struct LeasedExamples {
  // Without what a mark has covered. Rows and dense parameters need gradients
  // of them.
  std::vector<v1::DataRange> ranges;
  // Without a name: each says by itself which gradients are needed.
  std::vector<v1::PushCompletion> push_completions;
};

struct DeadWorker {
  WorkerIndex worker{0};
  Generation generation{0};
  // By epoch.
  std::map<uint32_t, LeasedExamples> leased;
  // Of all servers, in any order.
  std::vector<v1::WorkerLedger> ledgers;
};

// Disjoint: an example goes back, or it is covered.
struct RecoveredEpoch {
  // Without lease numbers. Those with a name complete the worker's pushes, in
  // the order of their sequences; the others have either examples or
  // dense_examples, at most kMaxCompletionExamples.
  std::vector<v1::PushCompletion> push_completions;
  // Nothing of these was applied: leased again.
  std::vector<v1::DataRange> returned;
  // Ascending. Not to be leased as ranges again: applied, or will be when the
  // push completions are done.
  std::vector<v1::DataRange> covered;
};

// So that more than one worker works off what a dead one has left.
inline constexpr uint64_t kMaxCompletionExamples = 4096;

// By epoch. A push counts as applied on all servers when one of these holds:
//
// 1. its sequence is a window or more below the highest that any server saw:
//    the client's rule;
// 2. all of its messages were applied, some on this server, some on that;
// 3. nothing of it is leased any more: the worker has marked it, or said that
//    it is done, after all servers had answered. A server that came back from
//    a checkpoint knows nothing of pushes before it, which were marked.
//
// All others that a server has a record of are completed under their name: a
// message that is not told as applied may be so in some of its groups. An
// example that is leased, and whose gradients of one kind, rows or dense
// parameters, are in a push that a server knows and those of the other kind are
// not, is completed without a name.
//
// REQUIRES: no push of the worker is applied any more. The intervals of a push
// are of one epoch.
std::map<uint32_t, RecoveredEpoch> RecoverExamples(const DeadWorker& dead);

}  // namespace oarlock::coordinator

#endif  // OARLOCK_COORDINATOR_DEAD_WORKER_RECOVERY_H_
