// A set of examples of many sources.

#ifndef OARLOCK_COORDINATOR_RANGES_RANGE_SET_H_
#define OARLOCK_COORDINATOR_RANGES_RANGE_SET_H_

#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "base/interval_set.h"
#include "proto/state/coordinator_state.pb.h"
#include "proto/v1/coordinator_ranges.pb.h"

namespace oarlock::coordinator {

// Not thread-safe.
class RangeSet {
 public:
  // REQUIRES: the range has an end.
  void Add(const v1::DataRange& range) {
    sources_[range.source()].Add(range.begin(), range.end());
  }

  // The parts of `range` that are not in the set, ascending, each with the
  // place in the file where a reader finds it. If the end of `range` is not
  // known, neither is that of the last part.
  std::vector<v1::DataRange> Missing(const v1::DataRange& range) const;
  // The parts of `range` that are in the set, likewise.
  std::vector<v1::DataRange> Common(const v1::DataRange& range) const;

  // Ascending by (source, begin), disjoint, not adjacent.
  std::vector<v1::DataRange> ranges() const;
  // Number of examples in the set.
  uint64_t size() const;

 private:
  std::map<uint32_t, IntervalSet> sources_;
};

// Save and load sets by phase name.
void SaveCovered(const std::map<std::string, RangeSet>& sets,
                 google::protobuf::RepeatedPtrField<v1::CoveredState>* state);
void LoadCovered(
    const google::protobuf::RepeatedPtrField<v1::CoveredState>& state,
    std::map<std::string, RangeSet>* sets);

}  // namespace oarlock::coordinator

#endif  // OARLOCK_COORDINATOR_RANGES_RANGE_SET_H_
