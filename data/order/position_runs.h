// A set of positions of an epoch, as runs: a worker's share of it.

#ifndef OARLOCK_DATA_ORDER_POSITION_RUNS_H_
#define OARLOCK_DATA_ORDER_POSITION_RUNS_H_

#include <cstddef>
#include <cstdint>
#include <vector>

namespace oarlock::data {

// Positions [begin, end).
struct PositionRun {
  uint64_t begin = 0;
  uint64_t end = 0;
  friend bool operator==(const PositionRun&, const PositionRun&) = default;
};

// Immutable, so thread-safe. Ordinal o of the set is its o-th position.
class PositionRuns {
 public:
  // `runs` may have any order but must not overlap. Adjacent runs become one.
  explicit PositionRuns(std::vector<PositionRun> runs);

  uint64_t size() const { return first_ordinal_.back(); }
  const std::vector<PositionRun>& runs() const { return runs_; }
  // REQUIRES: ordinal < size().
  uint64_t PositionOf(uint64_t ordinal) const;
  // REQUIRES: `position` is in the set.
  uint64_t OrdinalOf(uint64_t position) const;

 private:
  std::vector<PositionRun> runs_;        // ascending
  std::vector<uint64_t> first_ordinal_;  // [runs + 1]
};

}  // namespace oarlock::data

#endif  // OARLOCK_DATA_ORDER_POSITION_RUNS_H_
