#include "pserver/table/space_saving.h"

#include <algorithm>
#include <utility>

#include "base/check.h"

namespace oarlock::pserver {

SpaceSaving::SpaceSaving(size_t capacity) : capacity_(capacity) {
  OARLOCK_CHECK(capacity >= 1 && capacity <= (size_t{1} << 30));
}

void SpaceSaving::Add(Key key) {
  ++total_;
  const auto found = counter_of_.find(key);
  Increment(found != counter_of_.end()  ? found->second
            : order_.size() < capacity_ ? NewCounter(key)
                                        : TakeOver(key));
}

uint32_t SpaceSaving::NewCounter(Key key) {
  const auto counter = static_cast<uint32_t>(counters_.size());
  const auto position = static_cast<uint32_t>(order_.size());
  counters_.push_back({key, /*error=*/0, position, NewGroup(0, position)});
  order_.push_back(counter);
  counter_of_[key] = counter;
  return counter;
}

uint32_t SpaceSaving::TakeOver(Key key) {
  const uint32_t counter = order_.back();
  counter_of_.erase(counters_[counter].key);
  counter_of_[key] = counter;
  counters_[counter].key = key;
  counters_[counter].error = CountAt(order_.size() - 1);
  return counter;
}

void SpaceSaving::Increment(uint32_t counter) {
  Counter& grown = counters_[counter];
  const uint32_t group = grown.group;
  const uint64_t count = groups_[group].count + 1;
  // To the front of its group.
  const uint32_t position = groups_[group].first;
  std::swap(order_[position], order_[grown.position]);
  counters_[order_[grown.position]].position = grown.position;
  grown.position = position;

  const bool joins = position > 0 && CountAt(position - 1) == count;
  const bool was_alone = position + 1 == order_.size() ||
                         counters_[order_[position + 1]].group != group;
  if (joins) {
    grown.group = counters_[order_[position - 1]].group;
    if (was_alone) free_groups_.push_back(group);
  } else if (was_alone) {
    groups_[group].count = count;
    return;
  } else {
    grown.group = NewGroup(count, position);
  }
  if (!was_alone) ++groups_[group].first;
}

uint32_t SpaceSaving::NewGroup(uint64_t count, uint32_t first) {
  if (free_groups_.empty()) {
    groups_.push_back({count, first});
    return static_cast<uint32_t>(groups_.size() - 1);
  }
  const uint32_t group = free_groups_.back();
  free_groups_.pop_back();
  groups_[group] = {count, first};
  return group;
}

SpaceSaving::Count SpaceSaving::Find(Key key) const {
  const auto found = counter_of_.find(key);
  if (found == counter_of_.end()) return {key, least_count(), least_count()};
  const Counter& counter = counters_[found->second];
  return {key, groups_[counter.group].count, counter.error};
}

std::vector<SpaceSaving::Count> SpaceSaving::Top(size_t n) const {
  std::vector<Count> top;
  for (size_t i = 0; i < std::min(n, order_.size()); ++i) {
    top.push_back(
        {counters_[order_[i]].key, CountAt(i), counters_[order_[i]].error});
  }
  return top;
}

}  // namespace oarlock::pserver
