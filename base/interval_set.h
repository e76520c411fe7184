// A set of numbers kept as runs.

#ifndef OARLOCK_BASE_INTERVAL_SET_H_
#define OARLOCK_BASE_INTERVAL_SET_H_

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <iterator>
#include <map>
#include <utility>
#include <vector>

namespace oarlock {

// Numbers [begin, end). Costs memory per run, not per number. Not thread-safe.
class IntervalSet {
 public:
  struct Interval {
    uint64_t begin = 0;
    uint64_t end = 0;  // exclusive

    friend bool operator==(const Interval&, const Interval&) = default;
  };

  // Adds [begin, end); an empty one changes nothing.
  void Add(uint64_t begin, uint64_t end) {
    if (begin >= end) return;
    auto it = runs_.upper_bound(begin);
    if (it != runs_.begin() && std::prev(it)->second >= begin) --it;
    while (it != runs_.end() && it->first <= end) {
      begin = std::min(begin, it->first);
      end = std::max(end, it->second);
      it = runs_.erase(it);
    }
    runs_.emplace_hint(it, begin, end);
  }

  // What of [begin, end) is not in the set, ascending.
  std::vector<Interval> Missing(uint64_t begin, uint64_t end) const {
    std::vector<Interval> missing;
    auto it = runs_.upper_bound(begin);
    if (it != runs_.begin()) begin = std::max(begin, std::prev(it)->second);
    for (; it != runs_.end() && it->first < end; ++it) {
      if (begin < it->first) missing.push_back({begin, it->first});
      begin = it->second;
    }
    if (begin < end) missing.push_back({begin, end});
    return missing;
  }

  // Ascending, disjoint, not adjacent.
  std::vector<Interval> intervals() const {
    std::vector<Interval> result;
    for (const auto& [begin, end] : runs_) result.push_back({begin, end});
    return result;
  }
  bool empty() const { return runs_.empty(); }

 private:
  // From begin to end.
  std::map<uint64_t, uint64_t> runs_;
};

}  // namespace oarlock

#endif  // OARLOCK_BASE_INTERVAL_SET_H_
