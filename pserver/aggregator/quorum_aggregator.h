// Async mode for dense tables of jobs with many workers: pushes are combined
// while they wait for each other, but for nobody who is slow.
//
// Twenty workers that push gradients of the same parameters one after the other
// make twenty steps in one direction, none of which knows the others; adaptive
// rules cannot tell (docs/design/0020-quorum.md). Here a push is held until a
// quorum of the workers that are at work has pushed. Their gradients are added
// up and applied as one update, and all of them are answered with what it made:
// they compute their next steps on parameters that know this one. Who comes
// late is part of the next update.
//
// A quorum waits for a moment for others that are about to come. Each server
// has quorums of its own, and a worker goes on when all of them have answered:
// where each left out some of many pushes that lie there at once, as chance has
// it, everybody would soon wait at some server for somebody who waits at
// another.
//
// At work is who has pushed since the update before the last. Nobody joins or
// leaves: a worker that dies, finishes or stands still is no longer counted two
// updates later. For the updates until then nobody waits longer than some
// multiple of what a quorum has been taking. Where that is reached time after
// time (workers that cannot have as many pushes under way as their threads
// say), as many as came together make a quorum for a while (quorum_timeout.h).
//
// While a cut is open nobody waits: workers that have marked it push behind it,
// where the cut's gate holds them, until all others' pushes before it have been
// answered.

#ifndef OARLOCK_PSERVER_AGGREGATOR_QUORUM_AGGREGATOR_H_
#define OARLOCK_PSERVER_AGGREGATOR_QUORUM_AGGREGATOR_H_

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <thread>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/container/btree_map.h"
#include "absl/synchronization/mutex.h"
#include "absl/time/time.h"
#include "base/clock.h"
#include "base/push_stamp.h"
#include "base/types.h"
#include "pserver/aggregator/aggregator.h"
#include "pserver/aggregator/quorum_timeout.h"
#include "sparse_table/dense/dense_table.h"

namespace oarlock::pserver {

// Thread-safe. Callbacks run without the lock held.
//
// Invariants:
// 1. A push's gradients are in the table's sums, or applied, from the moment
//    that it waits: nothing is lost when an update is made early.
// 2. While a push waits, the time limit runs.
// 3. A push that comes again while it is held is answered when it is, and
// counts
//    once towards the quorum; one that has been applied is answered at once.
class QuorumAggregator : public Aggregator {
 public:
  // Updates after which a worker that has not pushed is not counted.
  static constexpr uint64_t kUpdatesAbsent = 2;

  enum class Timer { kThread, kByHand };

  // The table and the clock, which must be monotonic (Clock::Monotonic), must
  // outlive this. REQUIRES: the table's quorum is above 0. kByHand: somebody
  // calls ReleaseDue.
  QuorumAggregator(sparse_table::DenseTable* table, const Clock& clock,
                   Timer timer = Timer::kThread);
  ~QuorumAggregator() override;

  void PushSparse(wire::PushSparseRequestView push, PushDone done) override;
  void PushDense(wire::PushDenseRequestView push, PushDone done) override;

  void SetRoundMember(WorkerIndex worker, Generation generation,
                      bool joins) override {}
  uint64_t CompleteRounds() const override { return 0; }
  // Updates.
  uint64_t Version() const override;
  uint64_t HeldPushes() const override;
  uint64_t OverdueUpdates() const override;
  // A cut is open until every round is allowed.
  uint64_t HoldRounds() override;
  void AllowRounds(uint64_t last) override;
  void Restore(uint64_t version, uint64_t complete_rounds) override;
  // Nobody waits for what is held then. Neither the times at which a log's
  // pushes came nor who made them says anything of those to come.
  void EndReplay() override;
  // What is held is applied, and answered as such.
  void Shutdown() override;

  // Makes the update whose time has come, if there is one: that of a quorum, or
  // one that has waited for its quorum for too long.
  void ReleaseDue();
  // How long an update waits for its quorum now.
  absl::Duration hold() const;

 private:
  struct Waiting {
    PushStamp stamp;
    // Parts of a push have different ones.
    BlockIndex first_block;
    PushDone done;
    PushOutcome outcome;
  };

  // Adds the gradients to the table's sums.
  PushOutcome Hold(const wire::PushDenseRequestView& push)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  bool IsHeld(const PushStamp& stamp, BlockIndex first_block) const
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  // Pushes that workers at work can have under way.
  size_t PushesAtWork() const ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  // How many of them make a quorum.
  size_t QuorumOf(size_t pushes) const;
  // Another message waits, of a push that is cut into so many. Whether the
  // update is to be made at once.
  bool IsDueWithIt(size_t messages) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  // When the update that waits is made whoever comes.
  absl::Time DueTime() const ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  // The update is made; returns whom to answer.
  std::vector<Waiting> Release() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  static void Answer(std::vector<Waiting> waiting);
  void RunTimer();

  // Constant.
  sparse_table::DenseTable* const table_;
  const Clock& clock_;

  mutable absl::Mutex mutex_;
  bool shut_down_ ABSL_GUARDED_BY(mutex_) = false;
  bool cut_open_ ABSL_GUARDED_BY(mutex_) = false;
  // Updates made so far, those of earlier incarnations included.
  uint64_t updates_ ABSL_GUARDED_BY(mutex_) = 0;
  // One for each message that is held.
  std::vector<Waiting> waiting_ ABSL_GUARDED_BY(mutex_);
  // Messages that are held and came again; none while nothing is held.
  std::vector<Waiting> repeated_ ABSL_GUARDED_BY(mutex_);
  // When the first of waiting_ came.
  absl::Time first_arrival_ ABSL_GUARDED_BY(mutex_);
  // When they became a quorum.
  std::optional<absl::Time> quorum_arrival_ ABSL_GUARDED_BY(mutex_);
  // By worker, the update that it last waited for. Not by a push that another
  // completes for it: it is gone.
  absl::btree_map<WorkerIndex, uint64_t> last_update_ ABSL_GUARDED_BY(mutex_);
  QuorumTimeout timeout_ ABSL_GUARDED_BY(mutex_);
  uint64_t overdue_updates_ ABSL_GUARDED_BY(mutex_) = 0;

  // Last: it uses what is above. Not there with Timer::kByHand.
  std::unique_ptr<std::thread> timer_;
};

}  // namespace oarlock::pserver

#endif  // OARLOCK_PSERVER_AGGREGATOR_QUORUM_AGGREGATOR_H_
