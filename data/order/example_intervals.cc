#include "data/order/example_intervals.h"

#include <algorithm>
#include <iterator>

namespace oarlock::data {

ExampleIntervals::Runs::const_iterator ExampleIntervals::FirstFrom(
    uint32_t source, uint64_t begin) const {
  auto it = runs_.upper_bound({source, begin});
  if (it == runs_.begin()) return it;
  const auto before = std::prev(it);
  return before->first.first == source && before->second >= begin ? before : it;
}

void ExampleIntervals::Add(const ExampleRange& range) {
  if (range.begin >= range.end) return;
  uint64_t begin = range.begin;
  uint64_t end = range.end;
  auto it = FirstFrom(range.source, begin);
  while (it != runs_.end() && it->first.first == range.source &&
         it->first.second <= end) {
    begin = std::min(begin, it->first.second);
    end = std::max(end, it->second);
    it = runs_.erase(it);
  }
  runs_.emplace_hint(it, std::pair(range.source, begin), end);
}

void ExampleIntervals::Merge(const ExampleIntervals& other) {
  for (const ExampleRange& range : other.ranges()) Add(range);
}

std::vector<ExampleRange> ExampleIntervals::ranges() const {
  std::vector<ExampleRange> ranges;
  for (const auto& [begin, end] : runs_) {
    ranges.push_back({begin.first, begin.second, end});
  }
  return ranges;
}

std::vector<ExampleRange> ExampleIntervals::Missing(
    const ExampleRange& range) const {
  std::vector<ExampleRange> missing;
  uint64_t begin = range.begin;
  for (auto it = FirstFrom(range.source, begin);
       it != runs_.end() && it->first.first == range.source &&
       it->first.second < range.end;
       ++it) {
    if (begin < it->first.second) {
      missing.push_back({range.source, begin, it->first.second});
    }
    begin = std::max(begin, it->second);
  }
  if (begin < range.end) missing.push_back({range.source, begin, range.end});
  return missing;
}

}  // namespace oarlock::data
