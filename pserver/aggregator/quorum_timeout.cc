#include "pserver/aggregator/quorum_timeout.h"

#include <algorithm>
#include <utility>

namespace oarlock::pserver {
namespace {

// Weight of the newest quorum in the moving average, if it was a shorter one.
constexpr double kNewest = 0.1;
// Factor by which the hold grows when there was no quorum within it.
constexpr double kGrowth = 1.5;

}  // namespace

size_t QuorumTimeout::Quorum(size_t whole, uint64_t updates) const {
  return IsLowered(updates) ? std::min(whole, lowered_) : whole;
}

void QuorumTimeout::OnQuorum(absl::Duration took, uint64_t updates) {
  OnSinglePush(updates);
  usual_ = std::max(took, (1 - kNewest) * usual_ + kNewest * took);
  quorums_ = std::min(quorums_ + 1, kQuorumsFirst);
  hold_ = UsualHold();
}

void QuorumTimeout::OnSinglePush(uint64_t updates) {
  timeouts_ = 0;
  most_at_timeout_ = 0;
  if (!IsLowered(updates)) next_lowered_updates_ = kUpdatesLoweredFirst;
}

void QuorumTimeout::OnTimeout(size_t waiting, uint64_t updates) {
  // Perhaps steps have become longer.
  hold_ = std::min(kGrowth * hold_, kHoldMax);
  most_at_timeout_ = std::max(most_at_timeout_, waiting);
  const bool is_only_try =
      !IsLowered(updates) && next_lowered_updates_ > kUpdatesLoweredFirst;
  if (++timeouts_ < kTimeoutsMax && !is_only_try) return;
  timeouts_ = 0;
  lowered_ = std::exchange(most_at_timeout_, 0);
  lowered_until_ = updates + 1 + next_lowered_updates_;
  next_lowered_updates_ =
      std::min(2 * next_lowered_updates_, kUpdatesLoweredMax);
  // Steps have not become longer. No update shall wait so long again where
  // pushes come one at a time.
  hold_ = UsualHold();
}

absl::Duration QuorumTimeout::UsualHold() const {
  return std::clamp(kMultiple * usual_,
                    quorums_ < kQuorumsFirst ? kHoldFirst : kHoldMin, kHoldMax);
}

}  // namespace oarlock::pserver
