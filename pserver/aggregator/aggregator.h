// An aggregator is a mode: what a push means to a table. The services decode
// pushes and answer them, the tables apply them, and only aggregators decide
// when.

#ifndef OARLOCK_PSERVER_AGGREGATOR_AGGREGATOR_H_
#define OARLOCK_PSERVER_AGGREGATOR_AGGREGATOR_H_

#include <cstdint>

#include "absl/functional/any_invocable.h"
#include "absl/functional/function_ref.h"
#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "base/clock.h"
#include "base/types.h"
#include "wire/wire_codec.h"

namespace oarlock::pserver {

struct PushOutcome {
  // Groups that had this push already.
  uint32_t duplicate_groups = 0;
};

// Called once, from any thread and without a lock held: when the push is as
// applied as its mode promises, or with the reason why it will never be.
using PushDone = absl::AnyInvocable<void(absl::StatusOr<PushOutcome>)>;

// See Aggregator::AllowRounds.
inline constexpr uint64_t kEveryRound = ~uint64_t{0};

// One per table, whose kind decides which of the two pushes may be called.
// Thread-safe. The push has been checked: job, generations, fences, groups or
// blocks of this server, as many values as the table needs. What arrives twice
// under one name is applied once.
class Aggregator {
 public:
  virtual ~Aggregator() = default;

  virtual void PushSparse(wire::PushSparseRequestView push, PushDone done) = 0;
  virtual void PushDense(wire::PushDenseRequestView push, PushDone done) = 0;

  // Whether the same message of the same push waits for its round already.
  virtual bool Holds(const v1::RequestHeader& header) { return false; }

  // Whether a push is a contribution to a round. Then the aggregator itself
  // remembers which pushes it has, and holds those beyond a cut; no ledger and
  // no gate does.
  virtual bool HasRounds() const { return false; }
  // The worker contributes to every round from the next one on, or to none any
  // more (it left, or its lease ran out). A newer generation replaces an older
  // one of the same worker; calls for an older one are ignored. Modes without
  // rounds ignore all of these calls.
  virtual void SetRoundMember(WorkerIndex worker, Generation generation,
                              bool joins) = 0;
  // Forgets the pushes of the worker's incarnations up to `last`. REQUIRES:
  // none of their pushes comes any more.
  virtual void ForgetWorker(WorkerIndex worker, Generation last) {}
  // Number of rounds that are complete, including one that is just being
  // applied. A worker that has joined contributes to the next. 0 without
  // rounds.
  virtual uint64_t CompleteRounds() const = 0;
  // Grows by one with each update of the table: in async mode with each push
  // (however many messages it came in), in sync mode with each round.
  virtual uint64_t Version() const = 0;
  // For cuts (docs/design/0009-checkpoints.md). No round beyond those that are
  // complete now begins to be applied; returns CompleteRounds().
  virtual uint64_t HoldRounds() { return 0; }
  // Rounds up to `last` may be applied, after a HoldRounds; kEveryRound: all.
  virtual void AllowRounds(uint64_t last) {}
  // Waits until rounds up to `last` are applied; false when `deadline` on
  // `clock` comes first. Modes without rounds return true at once.
  virtual bool AwaitRounds(uint64_t last, const Clock& clock,
                           absl::Time deadline) {
    return true;
  }

  // Calls `action` while no round is being applied; those that become complete
  // meanwhile are applied after it, by this thread too. Modes without rounds
  // call it at once, with 0.
  virtual void BetweenRounds(
      absl::FunctionRef<void(uint64_t complete_rounds)> action) {
    action(0);
  }

  // Continues from the state of another incarnation. REQUIRES: no push has
  // come.
  virtual void Restore(uint64_t version, uint64_t complete_rounds) = 0;
  // All pushes of a log have come; later ones come from workers.
  virtual void EndReplay() {}

  // Pushes that wait for their round, or quorum.
  virtual uint64_t HeldPushes() const = 0;
  // Updates that were made without their quorum, which had not come in time.
  virtual uint64_t OverdueUpdates() const { return 0; }

  // Answers everything that is held with Unavailable and returns when that is
  // done; pushes that arrive later are Unavailable at once. Must not be called
  // from a callback. Idempotent.
  virtual void Shutdown() = 0;
};

}  // namespace oarlock::pserver

#endif  // OARLOCK_PSERVER_AGGREGATOR_AGGREGATOR_H_
