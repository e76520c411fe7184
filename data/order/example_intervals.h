// A set of examples of one phase.

#ifndef OARLOCK_DATA_ORDER_EXAMPLE_INTERVALS_H_
#define OARLOCK_DATA_ORDER_EXAMPLE_INTERVALS_H_

#include <cstdint>
#include <map>
#include <utility>
#include <vector>

#include "data/batch.h"

namespace oarlock::data {

// Takes memory per run of examples, not per example: batches of one range are
// adjacent and become one run. Not thread-safe.
class ExampleIntervals {
 public:
  // An empty range changes nothing. Examples that are already in the set stay.
  void Add(const ExampleRange& range);
  void Merge(const ExampleIntervals& other);

  bool empty() const { return runs_.empty(); }
  // Ascending by (source, begin), disjoint, not adjacent.
  std::vector<ExampleRange> ranges() const;
  // The parts of `range` that are not in the set, ascending.
  std::vector<ExampleRange> Missing(const ExampleRange& range) const;

 private:
  using Runs = std::map<std::pair<uint32_t, uint64_t>, uint64_t>;

  // The first run of `source` that ends at `begin` or later; without such a
  // run, the position after the runs of `source`.
  Runs::const_iterator FirstFrom(uint32_t source, uint64_t begin) const;

  // From (source, begin) to end, exclusive.
  Runs runs_;
};

}  // namespace oarlock::data

#endif  // OARLOCK_DATA_ORDER_EXAMPLE_INTERVALS_H_
