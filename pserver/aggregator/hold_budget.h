// Limits the bytes of pushes that a server holds: those that wait for their
// round or their cut.
//
// What is waited for always has room. A push that is ahead, beyond the lowest
// round that is held or behind the open cut, is refused when all pushes that
// are ahead would take more than max_held_bytes. The pushes of the lowest round
// have a budget of the same size to themselves. If a round alone needs more,
// no waiting helps.

#ifndef OARLOCK_PSERVER_AGGREGATOR_HOLD_BUDGET_H_
#define OARLOCK_PSERVER_AGGREGATOR_HOLD_BUDGET_H_

#include <cstdint>
#include <utility>

#include "absl/base/thread_annotations.h"
#include "absl/container/btree_map.h"
#include "absl/status/statusor.h"
#include "absl/synchronization/mutex.h"

namespace oarlock::pserver {

// Thread-safe.
class HoldBudget {
 public:
  // What a call that waits takes beside its message.
  static constexpr uint64_t kCallBytes = 8192;

  // Gives its bytes back when it goes. Movable.
  class Hold {
   public:
    Hold() = default;
    Hold(Hold&& other) noexcept { *this = std::move(other); }
    Hold& operator=(Hold&& other) noexcept {
      if (this == &other) return *this;
      Release();
      budget_ = std::exchange(other.budget_, nullptr);
      round_ = other.round_;
      bytes_ = other.bytes_;
      return *this;
    }
    ~Hold() { Release(); }

   private:
    friend class HoldBudget;
    Hold(HoldBudget* budget, uint64_t round, uint64_t bytes)
        : budget_(budget), round_(round), bytes_(bytes) {}
    void Release() {
      if (budget_ != nullptr) std::exchange(budget_, nullptr)->Give(*this);
    }

    HoldBudget* budget_ = nullptr;
    uint64_t round_ = 0;
    uint64_t bytes_ = 0;
  };

  // At least 1. Must outlive what it gave.
  explicit HoldBudget(uint64_t max_held_bytes)
      : max_held_bytes_(max_held_bytes) {}

  HoldBudget(const HoldBudget&) = delete;
  HoldBudget& operator=(const HoldBudget&) = delete;

  // For a push of a round. ResourceExhausted where it is ahead; OutOfRange
  // where its round alone would take more than max_held_bytes.
  absl::StatusOr<Hold> TakeForRound(uint64_t round, uint64_t message_bytes);
  // For a push behind a cut that is not finished. ResourceExhausted.
  absl::StatusOr<Hold> TakeBehindCut(uint64_t message_bytes);

  uint64_t max_held_bytes() const { return max_held_bytes_; }
  uint64_t held_bytes() const;

 private:
  // A push behind a cut is beyond every round.
  static constexpr uint64_t kBehindCut = ~uint64_t{0};

  Hold Take(uint64_t round, uint64_t bytes)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  void Give(const Hold& hold);

  const uint64_t max_held_bytes_;
  mutable absl::Mutex mutex_;
  // By round, those that hold something.
  absl::btree_map<uint64_t, uint64_t> bytes_of_round_ ABSL_GUARDED_BY(mutex_);
  uint64_t held_bytes_ ABSL_GUARDED_BY(mutex_) = 0;
};

}  // namespace oarlock::pserver

#endif  // OARLOCK_PSERVER_AGGREGATOR_HOLD_BUDGET_H_
