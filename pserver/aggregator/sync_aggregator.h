// Sync mode: pushes are combined in rounds.
//
// In every round a member sends each server at least one message per table,
// without groups if it has no gradients for it. The header has the round, and
// how many messages of the push come here for this table. The open round is
// complete when every member has delivered all of its messages. Then their
// gradients are combined per key in ascending order of workers: they are added
// up and, with reduction MEAN, divided by the number of contributing workers.
// The result is applied once, under the names of all contributors, and all
// calls are answered. So the table after a round depends on who contributed
// what, not on who came first (docs/design/0004-aggregators.md).
//
// Members. A worker that joins is waited for from the open round on. When it
// joins several servers at different moments, they return different rounds, and
// it begins with the latest. Its first message has the round from which it is
// waited for. So it awaits the responses of its first round before it sends the
// next. A worker that leaves, or is lost, is no longer waited for. What it has
// delivered completely counts; a push that lacks messages is dropped (Aborted).
//
// Names. A message that is held already only adds a caller, which waits for the
// same response. A message for a round that is over is answered as a duplicate
// if the table has applied it. It is FailedPrecondition if the round was
// applied without it.

#ifndef OARLOCK_PSERVER_AGGREGATOR_SYNC_AGGREGATOR_H_
#define OARLOCK_PSERVER_AGGREGATOR_SYNC_AGGREGATOR_H_

#include <array>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <utility>
#include <variant>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/container/btree_map.h"
#include "absl/functional/function_ref.h"
#include "absl/status/status.h"
#include "absl/synchronization/mutex.h"
#include "base/push_stamp.h"
#include "base/types.h"
#include "pserver/aggregator/aggregator.h"
#include "pserver/aggregator/logical_clock.h"
#include "pserver/aggregator/round_merge.h"
#include "sparse_table/dense/dense_table.h"
#include "sparse_table/sparse_table.h"

namespace oarlock::pserver {

// Thread-safe. A round is applied by the thread whose call completed it,
// outside the lock, so that messages of the next one are taken meanwhile.
//
// Invariants:
// 1. Rounds are applied one at a time, in order; at most one is complete and
//    not yet applied.
// 2. The round that is being applied gains and loses no contribution; only
//    callers that wait for it are added.
// 3. A callback runs without the lock held, after CompleteRounds and Version
//    count its round.
class SyncAggregator : public Aggregator {
 public:
  // Rounds that a member may be ahead of the open one.
  static constexpr uint64_t kMaxRoundsAhead = 1;
  // Callers that wait for one message, all but the first through retries.
  // Beyond that the oldest gets Unavailable.
  static constexpr size_t kMaxCallersPerMessage = 4;
  // Messages of one push to one table of one server.
  static constexpr uint32_t kMaxTableMessages = 4096;

  // The table and the clock must outlive this. The reduction is that of the
  // table's configuration. No clock: logical time is 0.
  explicit SyncAggregator(sparse_table::SparseTable* table,
                          const LogicalClock* clock = nullptr);
  explicit SyncAggregator(sparse_table::DenseTable* table,
                          const LogicalClock* clock = nullptr);

  void PushSparse(wire::PushSparseRequestView push, PushDone done) override;
  void PushDense(wire::PushDenseRequestView push, PushDone done) override;
  bool Holds(const v1::RequestHeader& header) override;
  void SetRoundMember(WorkerIndex worker, Generation generation,
                      bool joins) override;
  bool HasRounds() const override { return true; }
  uint64_t CompleteRounds() const override;
  uint64_t Version() const override;
  uint64_t HoldRounds() override;
  void AllowRounds(uint64_t last) override;
  bool AwaitRounds(uint64_t last, const Clock& clock,
                   absl::Time deadline) override;
  void BetweenRounds(absl::FunctionRef<void(uint64_t complete_rounds)> action)
      ABSL_LOCKS_EXCLUDED(mutex_) override;
  void Restore(uint64_t version, uint64_t complete_rounds) override;
  uint64_t HeldPushes() const override;
  void Shutdown() override;

 private:
  using PushView =
      std::variant<wire::PushSparseRequestView, wire::PushDenseRequestView>;

  // A message and the callers that wait for it.
  struct HeldMessage {
    PushView push;
    std::vector<PushDone> callers;
  };
  // What one worker contributes to a round: the messages of one push.
  struct Contribution {
    Sequence sequence;
    uint32_t num_messages = 0;
    // By index.
    absl::btree_map<uint32_t, HeldMessage> messages;

    bool complete() const { return messages.size() == num_messages; }
  };
  using Contributor = std::pair<WorkerIndex, Generation>;
  struct Round {
    uint64_t number = 0;
    // In the order in which gradients are added.
    absl::btree_map<Contributor, Contribution> contributions;
  };
  struct Member {
    Generation generation;
    // The open round waits for it from this round on.
    uint64_t first_round = 0;
    // Whether it has sent a message since it joined.
    bool started = false;
  };
  struct Reply {
    PushDone done;
    absl::StatusOr<PushOutcome> outcome;
  };
  using Replies = std::vector<Reply>;
  // What becomes of a message that has arrived.
  enum class Arrival {
    kHeld,
    // It was held already.
    kJoined,
    // Its round is over.
    kLate,
    kRefused,
  };

  void Push(PushView push, PushDone done);
  // Takes *push and *done if the message is held, *done alone if the same
  // message is held already. `*refusal` says why it is refused.
  Arrival Arrive(PushView* push, PushDone* done, absl::Status* refusal,
                 Replies* replies) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  // Whether the member may contribute `header`'s push to `round`, as its first
  // message or a further one.
  absl::Status CheckContribution(const v1::RequestHeader& header,
                                 const Round& round) const
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  // The held message with the name and number of `header`, or null.
  HeldMessage* FindHeld(const v1::RequestHeader& header)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  // The response to a message whose round is over.
  absl::StatusOr<PushOutcome> AnswerLate(const PushView& push) const;

  // Drops incomplete contributions of generations of `worker` up to `last`.
  void DropIncomplete(WorkerIndex worker, Generation last, Replies* replies)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);

  // Applies rounds until the open one is incomplete, unless another thread does
  // so already.
  void ApplyCompleteRounds() ABSL_LOCKS_EXCLUDED(mutex_);
  bool OpenRoundIsComplete() const ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  // Makes the open round the one that is applied, and opens the next.
  void CloseOpenRound() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  // Merges and applies. Called by one thread at a time, without the lock.
  absl::Status Apply(const Round& round);
  absl::Status ApplySparse(const Round& round, uint32_t divisor,
                           const std::vector<PushStamp>& stamps);
  void ApplyDense(const Round& round, uint32_t divisor,
                  const std::vector<PushStamp>& stamps);

  uint64_t open_round() const ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_) {
    return rounds_[0].number;
  }

  // Constant; one of the tables is set.
  sparse_table::SparseTable* const sparse_ = nullptr;
  sparse_table::DenseTable* const dense_ = nullptr;
  const LogicalClock* const clock_;
  const v1::GradientReduction reduction_;
  // "table 3 'embedding'", for messages.
  const std::string name_;

  // Used by the thread that applies.
  SparseRoundMerger sparse_merger_;
  DenseRoundMerger dense_merger_;

  mutable absl::Mutex mutex_;
  absl::btree_map<WorkerIndex, Member> members_ ABSL_GUARDED_BY(mutex_);
  // The open round and the one after it.
  std::array<Round, 1 + kMaxRoundsAhead> rounds_ ABSL_GUARDED_BY(mutex_);
  // The round that is being applied, if any. Its pushes are read without the
  // lock by the thread that applies (invariant 2).
  std::unique_ptr<Round> closed_ ABSL_GUARDED_BY(mutex_);
  // Set from closing a round until its callers are answered, and during an
  // action between rounds.
  bool busy_ ABSL_GUARDED_BY(mutex_) = false;
  // Calls of BetweenRounds; no round is closed before they are over.
  size_t between_ ABSL_GUARDED_BY(mutex_) = 0;
  // The latest sequence of each worker in a closed round: a later round must
  // bring a later one.
  absl::btree_map<WorkerIndex, std::pair<Generation, Sequence>>
      closed_sequences_ ABSL_GUARDED_BY(mutex_);
  uint64_t num_applied_rounds_ ABSL_GUARDED_BY(mutex_) = 0;
  // Later rounds are not closed, though they may be complete.
  uint64_t last_allowed_round_ ABSL_GUARDED_BY(mutex_) = kEveryRound;
  uint64_t num_held_ ABSL_GUARDED_BY(mutex_) = 0;
  bool shut_down_ ABSL_GUARDED_BY(mutex_) = false;
};

}  // namespace oarlock::pserver

#endif  // OARLOCK_PSERVER_AGGREGATOR_SYNC_AGGREGATOR_H_
