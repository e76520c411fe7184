// How long updates wait for their quorum, and how many pushes make a quorum
// where the whole one does not come. An aggregator derives both from earlier
// quorums.

#ifndef OARLOCK_PSERVER_AGGREGATOR_QUORUM_TIMEOUT_H_
#define OARLOCK_PSERVER_AGGREGATOR_QUORUM_TIMEOUT_H_

#include <cstddef>
#include <cstdint>

#include "absl/time/time.h"

namespace oarlock::pserver {

// Not thread-safe. `updates` is always the number of updates that were made
// before the one that a call is about.
class QuorumTimeout {
 public:
  // An update waits at most this many times as long as quorums have been taking
  // lately, within these bounds.
  static constexpr int kMultiple = 3;
  static constexpr absl::Duration kHoldMin = absl::Milliseconds(20);
  static constexpr absl::Duration kHoldMax = absl::Seconds(2);
  // Until this many quorums have come together, an update waits at least
  // kHoldFirst: the first quorums have few workers, and then workers that have
  // just begun.
  static constexpr int kQuorumsFirst = 16;
  static constexpr absl::Duration kHoldFirst = absl::Milliseconds(200);
  // A complete quorum waits for pushes that are about to come, for 1 /
  // kGraceShare of the time that quorums take.
  static constexpr int kGraceShare = 16;
  // After this many updates in a row without a quorum, the number of pushes
  // that came together in them makes one. This holds for a few updates, since
  // workers that have just begun come late. Then the whole quorum has one try.
  // If it does not come, what came in that try makes one for twice as many
  // updates.
  static constexpr int kTimeoutsMax = 4;
  static constexpr uint64_t kUpdatesLoweredFirst = 8;
  static constexpr uint64_t kUpdatesLoweredMax = 256;

  // How long an update waits for its quorum now.
  absl::Duration hold() const { return hold_; }
  absl::Duration grace() const { return usual_ / kGraceShare; }
  // How many messages an update waits for, where `whole` make a quorum.
  size_t Quorum(size_t whole, uint64_t updates) const;

  // A quorum has come together.
  void OnQuorum(absl::Duration took, uint64_t updates);
  // It was one push, which waits for no other: its time says nothing about
  // quorums.
  void OnSinglePush(uint64_t updates);
  // After hold() only `waiting` messages had come.
  void OnTimeout(size_t waiting, uint64_t updates);

 private:
  bool IsLowered(uint64_t updates) const { return updates < lowered_until_; }
  absl::Duration UsualHold() const;

  // The time that quorums have been taking. A longer time counts at once, a
  // shorter one in a moving average.
  absl::Duration usual_ = absl::ZeroDuration();
  absl::Duration hold_ = kHoldFirst;
  // Number of quorums that have come, up to kQuorumsFirst.
  int quorums_ = 0;
  // Number of updates without a quorum since the last one that had it, and the
  // most messages that waited for one of them.
  int timeouts_ = 0;
  size_t most_at_timeout_ = 0;
  // A quorum has at most lowered_ messages before the update lowered_until_.
  size_t lowered_ = 0;
  uint64_t lowered_until_ = 0;
  // Number of updates for which the next lowering holds.
  uint64_t next_lowered_updates_ = kUpdatesLoweredFirst;
};

}  // namespace oarlock::pserver

#endif  // OARLOCK_PSERVER_AGGREGATOR_QUORUM_TIMEOUT_H_
