// Decides what becomes of the examples that a dead worker had leased, in async
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

// What an incarnation has leased of one epoch and has not reported as done.
struct LeasedExamples {
  // Ranges, without the examples that a mark has covered. Both rows and dense
  // parameters need their gradients.
  std::vector<v1::DataRange> ranges;
  // Push completions without the name of a push. Each lists separately the
  // examples that rows need and those that dense parameters need.
  std::vector<v1::PushCompletion> push_completions;
};

struct DeadWorker {
  WorkerIndex worker{0};
  Generation generation{0};
  // By epoch.
  std::map<uint32_t, LeasedExamples> leased;
  // The ledgers of all servers, in any order.
  std::vector<v1::WorkerLedger> ledgers;
};

// The decision for one epoch. `returned` and `covered` are disjoint.
struct RecoveredEpoch {
  // Without lease numbers. A completion with a name completes the worker's push
  // of that name; these are in the order of their sequences. A completion
  // without a name has either `examples` or `dense_examples`, at most
  // kMaxCompletionExamples of them.
  std::vector<v1::PushCompletion> push_completions;
  // No gradients of these examples were applied: they are leased again.
  std::vector<v1::DataRange> returned;
  // Ascending. These must not be leased as ranges again: their gradients are
  // applied, or will be when the push completions are done.
  std::vector<v1::DataRange> covered;
};

// A limit, so that more than one worker works on what a dead worker has left.
inline constexpr uint64_t kMaxCompletionExamples = 4096;

// The result is by epoch. A push counts as applied on all servers when one of
// these holds:
//
// 1. Its sequence is a window or more below the highest that any server saw. By
//    the client's rule (base/push_window.h) all servers had acknowledged it.
// 2. All of its messages were applied, each on its own server.
// 3. Nothing of it is leased any more: the worker has marked it, or reported it
//    as done, after all servers had acknowledged it. A server that came back
//    from a checkpoint has no record of the pushes before that checkpoint, but
//    those were marked.
//
// Every other push that a server has a record of is completed under its name. A
// message of it that is not reported as applied may still be applied in some of
// its key groups.
//
// Gradients are of two kinds: for rows and for dense parameters. A recorded
// push may have one kind for a leased example, while no push has the other
// kind. The missing kind is completed without a name.
//
// REQUIRES: no push of the worker is applied any more. The intervals of a push
// are of one epoch.
std::map<uint32_t, RecoveredEpoch> RecoverExamples(const DeadWorker& dead);

// Whether the ledgers of all servers of a dead worker show a push of which some
// messages were applied and others were not. What is marked may look so on a
// server that came back from a checkpoint, where no log is kept.
struct PartialPushes {
  bool with_examples = false;
  bool without_examples = false;
};
PartialPushes FindPartialPushes(const std::vector<v1::WorkerLedger>& ledgers);

}  // namespace oarlock::coordinator

#endif  // OARLOCK_COORDINATOR_DEAD_WORKER_RECOVERY_H_
