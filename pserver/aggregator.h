// A mode is an aggregator: what a push means to a table. The services decode
// and answer, the tables apply; only aggregators know when.

#ifndef OARLOCK_PSERVER_AGGREGATOR_H_
#define OARLOCK_PSERVER_AGGREGATOR_H_

#include <cstdint>

#include "absl/functional/any_invocable.h"
#include "absl/status/statusor.h"
#include "base/types.h"
#include "proto/wire_codec.h"

namespace oarlock {

struct PushOutcome {
  // Groups that had this push already.
  uint32_t duplicate_groups = 0;
};

// Called once, from any thread, when the push is as applied as its mode
// promises, or with why it never will be.
using PushDone = absl::AnyInvocable<void(absl::StatusOr<PushOutcome>)>;

// One per table. Thread-safe. The header has been checked: job, generations,
// membership. What arrives twice under one name is applied once.
class Aggregator {
 public:
  virtual ~Aggregator() = default;

  virtual void PushSparse(PushSparseRequestView push, PushDone done) = 0;
  virtual void PushDense(PushDenseRequestView push, PushDone done) = 0;

  // The worker contributes to every round from the next one on, or to none
  // any more (it left, or its lease ran out). Modes without rounds ignore it.
  virtual void SetRoundMember(WorkerIndex worker, Generation generation,
                              bool joins) = 0;
  // Rounds that are complete.
  virtual uint64_t CompleteRounds() const = 0;
  // Pushes that wait for their round.
  virtual uint64_t HeldPushes() const = 0;

  // Answers everything that is held with Unavailable; nothing is held later.
  virtual void Shutdown() = 0;
};

}  // namespace oarlock

#endif  // OARLOCK_PSERVER_AGGREGATOR_H_
