// In which order an epoch takes its examples.
//
// An epoch has positions 0, 1, 2 ...; leases, splits, pushes and checkpoints
// speak of positions alone, so a shuffled epoch is divided and resumed, and
// its pushes are completed, like any other. What stands at a position follows
// from (seed, epoch) and the options: every worker computes it for itself, and
// nobody waits for anybody.
//
// A shuffled order is made in two steps, as CorgiPile does (Xu et al., "In-
// database machine learning with CorgiPile: stochastic gradient descent without
// full data shuffle", SIGMOD 2022): units of consecutive examples are put into
// random order, then the examples of each window of that order are. Reading a
// window touches few places of the files, and a window holds examples of
// everywhere.
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
  // The data stand so often behind one another, and are shuffled as a whole.
  uint32_t num_repeats = 1;
  // The same on all workers, but for orders of their own.
  uint64_t seed = 1;
  uint64_t epoch = 0;
  // Only these positions change places, among themselves; null: all do.
  std::shared_ptr<const PositionRuns> share;

  static constexpr uint64_t kMaxWindowExamples = uint64_t{1} << 24;
};

// Immutable, so thread-safe. Takes 4 bytes of memory a unit.
class ExampleOrder {
 public:
  static constexpr uint64_t kUnitExamples = 64;

  // Of examples 0 to num_examples - 1.
  ExampleOrder(uint64_t num_examples, const OrderOptions& options);

  // Positions: num_examples * num_repeats.
  uint64_t size() const { return size_; }
  uint64_t num_examples() const { return num_examples_; }

 private:
  friend class OrderCursor;

  // Of the places that change: what stands at place `place` before windows are
  // shuffled, and how they are.
  uint64_t UnitsAt(uint64_t place) const;
  std::vector<uint32_t> WindowOrder(uint64_t window) const;

  const uint64_t num_examples_;
  const uint64_t size_;
  const OrderOptions options_;
  const uint64_t num_places_;
  const uint64_t unit_;
  const uint64_t seed_;
  std::vector<uint32_t> units_;  // in their new order
  // Where the unit that is shorter than others stands in it.
  uint64_t short_unit_place_ = 0;
};

// Reads an order. Thread-compatible; keeps the window that was asked for last.
class OrderCursor {
 public:
  // `order` outlives the cursor.
  explicit OrderCursor(const ExampleOrder* order) : order_(*order) {}
  // The example at `position`. REQUIRES: position < size(), and in the share
  // where there is one.
  uint64_t At(uint64_t position);

 private:
  const ExampleOrder& order_;
  uint64_t window_ = ~uint64_t{0};
  std::vector<uint32_t> window_order_;
};

}  // namespace oarlock::data

#endif  // OARLOCK_DATA_ORDER_EXAMPLE_ORDER_H_
