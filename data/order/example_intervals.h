// A set of examples of one phase.

#ifndef OARLOCK_DATA_ORDER_EXAMPLE_INTERVALS_H_
#define OARLOCK_DATA_ORDER_EXAMPLE_INTERVALS_H_

#include <cstdint>
#include <map>
#include <utility>
#include <vector>

#include "data/batch.h"

namespace oarlock::data {

// Costs memory per run of examples, not per example: batches of one range lie
// side by side and become one. Not thread-safe.
class ExampleIntervals {
 public:
  // An empty range changes nothing; examples that are there already stay.
  void Add(const ExampleRange& range);
  void Merge(const ExampleIntervals& other);

  bool empty() const { return runs_.empty(); }
  // Ascending by (source, begin), disjoint, not adjacent.
  std::vector<ExampleRange> ranges() const;
  // What of `range` is not in the set, ascending.
  std::vector<ExampleRange> Missing(const ExampleRange& range) const;

 private:
  using Runs = std::map<std::pair<uint32_t, uint64_t>, uint64_t>;

  // The first run of `source` that ends at `begin` or later, or what comes
  // after the source.
  Runs::const_iterator FirstFrom(uint32_t source, uint64_t begin) const;

  // From (source, begin) to end, exclusive.
  Runs runs_;
};

}  // namespace oarlock::data

#endif  // OARLOCK_DATA_ORDER_EXAMPLE_INTERVALS_H_
