// Async mode for dense tables of jobs with many workers: pushes wait for each
// other and are combined, but they do not wait for slow workers.
//
// Without this, twenty workers that push gradients of the same parameters one
// after the other make twenty steps in one direction. None of these gradients
// takes the other steps into account, and adaptive rules cannot detect that
// (docs/design/0020-quorum.md). Here a push is held until a quorum of the
// workers at work has pushed. Their gradients are added up and applied as one
// update, and all of them are answered with its result. So workers compute
// their next steps on parameters that include this update. A push that comes
// late is part of the next update.
//
// A quorum waits a moment for pushes that are about to come. Each server has
// quorums of its own, and a worker continues when all servers have answered.
// Many pushes may wait on the servers at the same time. If each server left out
// some of them by chance, every worker would soon wait at some server for a
// worker that waits at another.
//
// A worker is at work if it has pushed since the update before the last. There
// is no joining or leaving: a worker that dies, finishes or stands still is no
// longer counted two updates later. Until then an update waits at most some
// multiple of the time that quorums have been taking. This limit may be reached
// time after time, if workers cannot have as many unacknowledged pushes as they
// have threads. Then the number of pushes that came together makes a quorum for
// a while (quorum_timeout.h).
//
// While a cut is open no push waits. Workers that have marked the cut push
// after it, and the cut's gate holds these pushes. All pushes of others before
// the cut must be answered first.

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
// 1. From the moment that a push waits, its gradients are in the table's sums,
//    or applied. Nothing is lost when an update is made early.
// 2. While a push waits, the time limit runs.
// 3. A push that comes again while it is held is answered together with the
//    first message, and counts once towards the quorum. A push that has been
//    applied is answered at once.
class QuorumAggregator : public Aggregator {
 public:
  // A worker that has not pushed for this many updates is not counted.
  static constexpr uint64_t kUpdatesAbsent = 2;

  enum class Timer { kThread, kByHand };

  // The table and the clock, which must be monotonic (Clock::Monotonic), must
  // outlive this. REQUIRES: the table's quorum is above 0. kByHand: the caller
  // calls ReleaseDue.
  QuorumAggregator(sparse_table::DenseTable* table, const Clock& clock,
                   Timer timer = Timer::kThread);
  ~QuorumAggregator() override;

  void PushSparse(wire::PushSparseRequestView push, PushDone done) override;
  void PushDense(wire::PushDenseRequestView push, PushDone done) override;

  void SetRoundMember(WorkerIndex worker, Generation generation,
                      bool joins) override {}
  uint64_t CompleteRounds() const override { return 0; }
  // Number of updates.
  uint64_t Version() const override;
  uint64_t HeldPushes() const override;
  uint64_t OverdueUpdates() const override;
  // A cut is open from HoldRounds until AllowRounds allows every round.
  uint64_t HoldRounds() override;
  void AllowRounds(uint64_t last) override;
  void Restore(uint64_t version, uint64_t complete_rounds) override;
  // Applies what is held then, without waiting. The replayed pushes say nothing
  // of later ones, neither by their times nor by their workers.
  void EndReplay() override;
  // What is held is applied, and answered as such.
  void Shutdown() override;

  // Makes the update that is due, if there is one: it has its quorum, or has
  // waited too long for it.
  void ReleaseDue();
  // How long an update waits for its quorum now.
  absl::Duration hold() const;

 private:
  struct Waiting {
    PushStamp stamp;
    // Messages of one push have different ones.
    BlockIndex first_block;
    PushDone done;
    PushOutcome outcome;
  };

  // Adds the gradients to the table's sums.
  PushOutcome Hold(const wire::PushDenseRequestView& push)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  bool IsHeld(const PushStamp& stamp, BlockIndex first_block) const
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  // Number of pushes that workers at work can have unacknowledged.
  size_t PushesAtWork() const ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  // How many of them make a quorum.
  size_t QuorumOf(size_t pushes) const;
  // Call when another message waits; its push has `messages` messages. Returns
  // whether the update is to be made at once.
  bool IsDueWithIt(size_t messages) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  // When the update that waits is made, whether or not more pushes come.
  absl::Time DueTime() const ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  // Makes the update; returns the messages to answer.
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
  // Messages that came again while they are held; empty while nothing is held.
  std::vector<Waiting> repeated_ ABSL_GUARDED_BY(mutex_);
  // When the first of waiting_ came.
  absl::Time first_arrival_ ABSL_GUARDED_BY(mutex_);
  // When they became a quorum.
  std::optional<absl::Time> quorum_arrival_ ABSL_GUARDED_BY(mutex_);
  // By worker, the update for which it last waited. A push that another worker
  // completes for a dead one does not count.
  absl::btree_map<WorkerIndex, uint64_t> last_update_ ABSL_GUARDED_BY(mutex_);
  QuorumTimeout timeout_ ABSL_GUARDED_BY(mutex_);
  uint64_t overdue_updates_ ABSL_GUARDED_BY(mutex_) = 0;

  // Null with Timer::kByHand. Last: it uses what is above.
  std::unique_ptr<std::thread> timer_;
};

}  // namespace oarlock::pserver

#endif  // OARLOCK_PSERVER_AGGREGATOR_QUORUM_AGGREGATOR_H_
