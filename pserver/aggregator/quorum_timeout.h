// How long updates wait for their quorum, and how many pushes make one where
// the whole quorum does not come: what quorums teach an aggregator.

#ifndef OARLOCK_PSERVER_AGGREGATOR_QUORUM_TIMEOUT_H_
#define OARLOCK_PSERVER_AGGREGATOR_QUORUM_TIMEOUT_H_

#include <cstddef>
#include <cstdint>

#include "absl/time/time.h"

namespace oarlock::pserver {

// Not thread-safe. `updates` is always the number of those made before the one
// that is spoken of.
class QuorumTimeout {
 public:
  // An update waits at most this many times as long as quorums have been taking
  // lately, within these bounds.
  static constexpr int kMultiple = 3;
  static constexpr absl::Duration kHoldMin = absl::Milliseconds(20);
  static constexpr absl::Duration kHoldMax = absl::Seconds(2);
  // Until so many quorums have come together, at least so long: the first ones
  // are of few workers, and then of those who begin.
  static constexpr int kQuorumsFirst = 16;
  static constexpr absl::Duration kHoldFirst = absl::Milliseconds(200);
  // A quorum that has come waits for who is about to come, so small a share of
  // what quorums take.
  static constexpr int kGraceShare = 16;
  // After so many updates in a row without a quorum, one is what came together
  // in them: for a few updates, since workers that have just begun come late.
  // Then the whole one has one try, and where it does not come, what came in
  // that is one for twice as many updates.
  static constexpr int kTimeoutsMax = 4;
  static constexpr uint64_t kUpdatesLoweredFirst = 8;
  static constexpr uint64_t kUpdatesLoweredMax = 256;

  // How long an update waits for its quorum now.
  absl::Duration hold() const { return hold_; }
  absl::Duration grace() const { return usual_ / kGraceShare; }
  // How many an update waits for where `whole` make a quorum.
  size_t Quorum(size_t whole, uint64_t updates) const;

  // One has come together.
  void OnQuorum(absl::Duration took, uint64_t updates);
  // It was one push, which waits for nobody: its time says nothing of others.
  void OnSinglePush(uint64_t updates);
  // After hold() there were only `waiting`.
  void OnTimeout(size_t waiting, uint64_t updates);

 private:
  bool IsLowered(uint64_t updates) const { return updates < lowered_until_; }
  absl::Duration UsualHold() const;

  // What quorums have been taking: of a longer one its time at once, of shorter
  // ones a moving average.
  absl::Duration usual_ = absl::ZeroDuration();
  absl::Duration hold_ = kHoldFirst;
  // How many have come, as far as it matters.
  int quorums_ = 0;
  // Updates without a quorum since the last one that had it, and the most that
  // waited for one of them.
  int timeouts_ = 0;
  size_t most_at_timeout_ = 0;
  // Before that update a quorum has at most so many.
  size_t lowered_ = 0;
  uint64_t lowered_until_ = 0;
  // Updates that the next lowering is for.
  uint64_t next_lowered_updates_ = kUpdatesLoweredFirst;
};

}  // namespace oarlock::pserver

#endif  // OARLOCK_PSERVER_AGGREGATOR_QUORUM_TIMEOUT_H_
