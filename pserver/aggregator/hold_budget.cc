#include "pserver/aggregator/hold_budget.h"

#include "absl/status/status.h"
#include "absl/strings/str_format.h"

namespace oarlock::pserver {
namespace {

absl::Status Ahead(uint64_t bytes, uint64_t limit) {
  return absl::ResourceExhaustedError(absl::StrFormat(
      "pushes that are ahead of the open round or cut would hold %d bytes; "
      "legal is up to %d; call again, slower",
      bytes, limit));
}

}  // namespace

absl::StatusOr<HoldBudget::Hold> HoldBudget::TakeForRound(
    uint64_t round, uint64_t message_bytes) {
  const uint64_t bytes = message_bytes + kCallBytes;
  absl::MutexLock lock(&mutex_);
  const auto lowest = bytes_of_round_.begin();
  if (lowest == bytes_of_round_.end() || round < lowest->first) {
    // Nothing is held for it yet.
    if (bytes <= max_held_bytes_) return Take(round, bytes);
  } else if (round > lowest->first) {
    const uint64_t ahead = held_bytes_ - lowest->second + bytes;
    if (ahead > max_held_bytes_) return Ahead(ahead, max_held_bytes_);
    return Take(round, bytes);
  } else if (lowest->second + bytes <= max_held_bytes_) {
    return Take(round, bytes);
  }
  return absl::OutOfRangeError(absl::StrFormat(
      "the pushes of round %d alone would hold %d bytes on this server; legal "
      "is up to %d (--max_held_mb); use more servers, fewer workers or smaller "
      "batches, or raise it",
      round,
      bytes + (lowest != bytes_of_round_.end() && lowest->first == round
                   ? lowest->second
                   : 0),
      max_held_bytes_));
}

absl::StatusOr<HoldBudget::Hold> HoldBudget::TakeBehindCut(
    uint64_t message_bytes) {
  const uint64_t bytes = message_bytes + kCallBytes;
  absl::MutexLock lock(&mutex_);
  const auto lowest = bytes_of_round_.begin();
  uint64_t ahead = held_bytes_ + bytes;
  if (lowest != bytes_of_round_.end() && lowest->first != kBehindCut) {
    ahead -= lowest->second;
  }
  if (ahead > max_held_bytes_) return Ahead(ahead, max_held_bytes_);
  return Take(kBehindCut, bytes);
}

HoldBudget::Hold HoldBudget::Take(uint64_t round, uint64_t bytes) {
  bytes_of_round_[round] += bytes;
  held_bytes_ += bytes;
  return Hold(this, round, bytes);
}

void HoldBudget::Give(const Hold& hold) {
  absl::MutexLock lock(&mutex_);
  const auto found = bytes_of_round_.find(hold.round_);
  found->second -= hold.bytes_;
  if (found->second == 0) bytes_of_round_.erase(found);
  held_bytes_ -= hold.bytes_;
}

uint64_t HoldBudget::held_bytes() const {
  absl::MutexLock lock(&mutex_);
  return held_bytes_;
}

}  // namespace oarlock::pserver
