#include "data/order/position_runs.h"

#include <algorithm>

#include "base/check.h"

namespace oarlock::data {

PositionRuns::PositionRuns(std::vector<PositionRun> runs) {
  std::sort(runs.begin(), runs.end(),
            [](const PositionRun& a, const PositionRun& b) {
              return a.begin < b.begin;
            });
  first_ordinal_.push_back(0);
  for (const PositionRun& run : runs) {
    if (run.begin >= run.end) continue;
    if (!runs_.empty() && runs_.back().end == run.begin) {
      runs_.back().end = run.end;
      first_ordinal_.back() += run.end - run.begin;
      continue;
    }
    OARLOCK_CHECK(runs_.empty() || runs_.back().end < run.begin);
    runs_.push_back(run);
    first_ordinal_.push_back(first_ordinal_.back() + run.end - run.begin);
  }
}

uint64_t PositionRuns::PositionOf(uint64_t ordinal) const {
  OARLOCK_CHECK(ordinal < size());
  const auto run = static_cast<size_t>(
      std::upper_bound(first_ordinal_.begin(), first_ordinal_.end(), ordinal) -
      first_ordinal_.begin() - 1);
  return runs_[run].begin + ordinal - first_ordinal_[run];
}

uint64_t PositionRuns::OrdinalOf(uint64_t position) const {
  const auto after = std::upper_bound(
      runs_.begin(), runs_.end(), position,
      [](uint64_t p, const PositionRun& run) { return p < run.begin; });
  OARLOCK_CHECK(after != runs_.begin());
  const auto run = static_cast<size_t>(after - runs_.begin() - 1);
  OARLOCK_CHECK(position < runs_[run].end);
  return first_ordinal_[run] + position - runs_[run].begin;
}

}  // namespace oarlock::data
