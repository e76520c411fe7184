#include "coordinator/ranges/range_set.h"

#include <limits>
#include <utility>

namespace oarlock::coordinator {
namespace {

constexpr uint64_t kUnknownEnd = std::numeric_limits<uint64_t>::max();

uint64_t EndOf(const v1::DataRange& range) {
  return range.end() == 0 ? kUnknownEnd : range.end();
}

// REQUIRES: the interval is in the range.
v1::DataRange Part(const v1::DataRange& range,
                   const IntervalSet::Interval& interval) {
  v1::DataRange part = range;
  part.set_begin(interval.begin);
  part.set_end(interval.end == kUnknownEnd ? 0 : interval.end);
  // A reader finds the part by counting lines from the place of `range`.
  part.set_skip_lines(range.skip_lines() + interval.begin - range.begin());
  return part;
}

}  // namespace

std::vector<v1::DataRange> RangeSet::Missing(const v1::DataRange& range) const {
  const auto source = sources_.find(range.source());
  if (source == sources_.end()) return {range};
  std::vector<v1::DataRange> missing;
  for (const IntervalSet::Interval& interval :
       source->second.Missing(range.begin(), EndOf(range))) {
    missing.push_back(Part(range, interval));
  }
  return missing;
}

std::vector<v1::DataRange> RangeSet::Common(const v1::DataRange& range) const {
  const auto source = sources_.find(range.source());
  if (source == sources_.end()) return {};
  std::vector<v1::DataRange> common;
  uint64_t begin = range.begin();
  for (const IntervalSet::Interval& gap :
       source->second.Missing(begin, EndOf(range))) {
    if (begin < gap.begin) common.push_back(Part(range, {begin, gap.begin}));
    begin = gap.end;
  }
  const uint64_t end = EndOf(range);
  if (begin < end) common.push_back(Part(range, {begin, end}));
  return common;
}

uint64_t RangeSet::size() const {
  uint64_t size = 0;
  for (const auto& [source, intervals] : sources_) {
    for (const IntervalSet::Interval& interval : intervals.intervals()) {
      size += interval.end - interval.begin;
    }
  }
  return size;
}

std::vector<v1::DataRange> RangeSet::ranges() const {
  std::vector<v1::DataRange> ranges;
  for (const auto& [source, intervals] : sources_) {
    for (const IntervalSet::Interval& interval : intervals.intervals()) {
      v1::DataRange& range = ranges.emplace_back();
      range.set_source(source);
      range.set_begin(interval.begin);
      range.set_end(interval.end);
    }
  }
  return ranges;
}

void SaveCovered(const std::map<std::string, RangeSet>& sets,
                 google::protobuf::RepeatedPtrField<v1::CoveredState>* state) {
  for (const auto& [phase_name, set] : sets) {
    v1::CoveredState* covered = state->Add();
    covered->set_phase_name(phase_name);
    for (v1::DataRange& range : set.ranges()) {
      *covered->add_ranges() = std::move(range);
    }
  }
}

void LoadCovered(
    const google::protobuf::RepeatedPtrField<v1::CoveredState>& state,
    std::map<std::string, RangeSet>* sets) {
  sets->clear();
  for (const v1::CoveredState& covered : state) {
    RangeSet& set = (*sets)[covered.phase_name()];
    for (const v1::DataRange& range : covered.ranges()) set.Add(range);
  }
}

}  // namespace oarlock::coordinator
