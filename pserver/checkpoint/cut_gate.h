// Keeps the pushes of one server on their side of a cut.
//
// A push carries the number of the newest cut after which it belongs. Until
// that cut is finished here (frozen, or given up) the push is held. A cut that
// this server has not been told of yet may never come: such a push is refused
// for now. Pulls do not pass the gate. While tables are frozen no push is
// applied at all, so on this server each push is before or after the cut as a
// whole.

#ifndef OARLOCK_PSERVER_CHECKPOINT_CUT_GATE_H_
#define OARLOCK_PSERVER_CHECKPOINT_CUT_GATE_H_

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/functional/any_invocable.h"
#include "absl/functional/function_ref.h"
#include "absl/status/status.h"
#include "absl/synchronization/mutex.h"
#include "pserver/aggregator/hold_budget.h"

namespace oarlock::pserver {

// Thread-safe.
class CutGate {
 public:
  // `budget` outlives this. What is held counts as ahead there.
  explicit CutGate(HoldBudget* budget) : budget_(budget) {}

  // Applies a push (OK), or answers it with why it was not applied.
  using Apply = absl::AnyInvocable<void(const absl::Status&)>;

  // Calls `apply` once: now if `cut` is finished, else when it is, from the
  // thread that finishes it. Refusals: Unavailable for a cut that is neither
  // announced nor expected, else as HoldBudget::TakeBehindCut for a message of
  // `message_bytes`.
  void Pass(uint64_t cut, uint64_t message_bytes, Apply apply)
      ABSL_LOCKS_EXCLUDED(held_mutex_);

  // The newest cut that the coordinator has opened; responses carry it.
  void Announce(uint64_t cut) { Raise(cut, &announced_); }
  uint64_t announced() const {
    return announced_.load(std::memory_order_relaxed);
  }

  // The coordinator has opened this cut; the order to open it here may have
  // been missed.
  void Expect(uint64_t cut) { Raise(cut, &expected_); }

  // Calls `action` while no push that passes the gate is being applied. Pushes
  // wait for it.
  void Exclude(absl::FunctionRef<void()> action);
  // Calls `freeze` while no push is being applied, then finishes the cut.
  void Freeze(uint64_t cut, absl::FunctionRef<void()> freeze);
  // The cut is over, frozen or not: pushes that are held for it or an older one
  // continue. Finishing an older one changes nothing.
  void Finish(uint64_t cut) ABSL_LOCKS_EXCLUDED(held_mutex_);
  // The newest cut that is over. No freeze changes it while a push is being
  // applied.
  uint64_t finished() const {
    return finished_.load(std::memory_order_acquire);
  }

  size_t HeldPushes() const ABSL_LOCKS_EXCLUDED(held_mutex_);
  // Pushes that are held, and later ones, get Unavailable.
  void Shutdown() ABSL_LOCKS_EXCLUDED(held_mutex_);

 private:
  struct Held {
    uint64_t cut = 0;
    Apply apply;
    HoldBudget::Hold hold;
  };
  static void Raise(uint64_t cut, std::atomic<uint64_t>* number);
  // Lets those held pushes continue whose cuts are finished.
  void Release() ABSL_LOCKS_EXCLUDED(held_mutex_);
  // Takes *apply if the push has to wait. Otherwise returns its refusal, or OK.
  absl::Status Hold(uint64_t cut, uint64_t message_bytes, Apply* apply,
                    bool* held) ABSL_LOCKS_EXCLUDED(held_mutex_);

  HoldBudget* const budget_;
  std::atomic<uint64_t> announced_{0};
  std::atomic<uint64_t> expected_{0};
  std::atomic<uint64_t> finished_{0};
  // Held shared by threads that apply a push.
  absl::Mutex apply_mutex_;

  mutable absl::Mutex held_mutex_;
  // In the order of arrival.
  std::vector<Held> held_ ABSL_GUARDED_BY(held_mutex_);
  bool shut_down_ ABSL_GUARDED_BY(held_mutex_) = false;
};

}  // namespace oarlock::pserver

#endif  // OARLOCK_PSERVER_CHECKPOINT_CUT_GATE_H_
