// The order in which an epoch takes its examples.
//
// An epoch has positions 0, 1, 2 ... Leases, splits, pushes and checkpoints
// contain only positions. So a shuffled epoch is divided and resumed, and its
// pushes are completed, like any other epoch. The example at a position follows
// from (seed, epoch) and the options. Every worker computes it alone, and no
// worker waits for another.
//
// A shuffled order is made in two steps, as CorgiPile does (Xu et al.,
// "In-database machine learning with CorgiPile: stochastic gradient descent
// without full data shuffle", SIGMOD 2022). First, units of consecutive
// examples are put into random order. Then the examples of each window of that
// order are shuffled. Reading a window touches few places of the files, and a
// window holds examples from all parts of the data.
//
//   kGlobal  units of kUnitExamples: a window of 16,384 is made of 256 places
//   kLocal   units as long as a window: examples move within about a window

#ifndef OARLOCK_DATA_ORDER_EXAMPLE_ORDER_H_
#define OARLOCK_DATA_ORDER_EXAMPLE_ORDER_H_

#include <cstddef>
#include <cstdint>
#include <memory>
#include <vector>

#include "data/order/position_runs.h"

namespace oarlock::data {

enum class ShuffleRule { kNone, kLocal, kGlobal };

struct OrderOptions {
  ShuffleRule shuffle = ShuffleRule::kNone;
  uint64_t window_examples = 16384;  // 1 to kMaxWindowExamples
  // The epoch is this number of repeats of the data, shuffled as a whole.
  uint32_t num_repeats = 1;
  // The same on all workers, unless each worker has an order of its own.
  uint64_t seed = 1;
  uint64_t epoch = 0;
  // Only these positions are shuffled, among themselves; null: all positions
  // are.
  std::shared_ptr<const PositionRuns> share;

  static constexpr uint64_t kMaxWindowExamples = uint64_t{1} << 24;
};

// Immutable, so thread-safe. Takes 4 bytes of memory per unit.
class ExampleOrder {
 public:
  static constexpr uint64_t kUnitExamples = 64;

  // An order of examples 0 to num_examples - 1.
  ExampleOrder(uint64_t num_examples, const OrderOptions& options);

  // Number of positions: num_examples * num_repeats.
  uint64_t size() const { return size_; }
  uint64_t num_examples() const { return num_examples_; }

 private:
  friend class OrderCursor;

  // Places number the positions that are shuffled. UnitsAt returns what is at
  // place `place` after units are shuffled and before windows are. WindowOrder
  // returns the order of the examples in a window.
  uint64_t UnitsAt(uint64_t place) const;
  std::vector<uint32_t> WindowOrder(uint64_t window) const;

  const uint64_t num_examples_;
  const uint64_t size_;
  const OrderOptions options_;
  const uint64_t num_places_;
  const uint64_t unit_;
  const uint64_t seed_;
  std::vector<uint32_t> units_;  // in their new order
  // The index in units_ of the unit that is shorter than the others.
  uint64_t short_unit_place_ = 0;
};

// Reads an order. Thread-compatible; keeps the window that was used last.
class OrderCursor {
 public:
  // `order` outlives the cursor.
  explicit OrderCursor(const ExampleOrder* order) : order_(*order) {}
  // The example at `position`. REQUIRES: position < size(), and `position` is
  // in the share where there is one.
  uint64_t At(uint64_t position);

 private:
  const ExampleOrder& order_;
  uint64_t window_ = ~uint64_t{0};
  std::vector<uint32_t> window_order_;
};

}  // namespace oarlock::data

#endif  // OARLOCK_DATA_ORDER_EXAMPLE_ORDER_H_
