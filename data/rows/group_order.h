// In which order the rows of columnar files are read where that is not the
// order of the files. What is decoded at a time, a unit, stays together: units
// are drawn, some of them make a window, and rows are drawn within it.

#ifndef OARLOCK_DATA_ROWS_GROUP_ORDER_H_
#define OARLOCK_DATA_ROWS_GROUP_ORDER_H_

#include <cstdint>
#include <vector>

#include "data/batch.h"
#include "data/order/example_order.h"

namespace oarlock::data {

struct GroupOrderOptions {
  // kNone: the order of the files. kLocal: units stay with their worker.
  // kGlobal: units go to workers in the order that is drawn.
  ShuffleRule shuffle = ShuffleRule::kNone;
  uint32_t num_repeats = 1;
  // 1 where workers lease windows.
  uint32_t num_workers = 1;
  // Units of a window, at least 1.
  uint32_t window_units = 4;
  uint64_t seed = 0;
  uint32_t epoch = 0;
};

// The positions of an epoch, from 0: those of worker 0, window by window, then
// those of worker 1, and so on. In the order of a copy of the data, unit g is
// worker g mod n's. Immutable.
class GroupOrder {
 public:
  struct Window {
    uint32_t worker = 0;
    // Positions [begin, end).
    uint64_t begin = 0;
    uint64_t end = 0;
    std::vector<uint32_t> units;
  };

  // `unit_rows` are those of each unit.
  GroupOrder(const std::vector<uint64_t>& unit_rows,
             const GroupOrderOptions& options);

  const std::vector<Window>& windows() const { return windows_; }
  uint64_t size() const { return windows_.empty() ? 0 : windows_.back().end; }
  // A worker's positions; empty: it has none.
  ExampleRange PositionsOf(uint32_t worker) const;
  // The window that has the position. REQUIRES: position < size().
  uint32_t WindowOf(uint64_t position) const;
  // The row of the window's units, one after the other, that stands at each of
  // its positions. Empty: row i stands at position i.
  std::vector<uint32_t> RowsOf(uint32_t window) const;

 private:
  const uint64_t seed_;
  const bool shuffles_;
  std::vector<Window> windows_;
};

}  // namespace oarlock::data

#endif  // OARLOCK_DATA_ROWS_GROUP_ORDER_H_
