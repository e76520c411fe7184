#include "data/order/example_order.h"

#include <algorithm>
#include <numeric>
#include <utility>

#include "base/check.h"
#include "base/random.h"

namespace oarlock::data {
namespace {

// Separate the shuffling of units from the shuffling of windows.
constexpr uint64_t kUnitsPurpose = 0x756e697473;
constexpr uint64_t kWindowPurpose = 0x77696e646f77;

std::vector<uint32_t> Shuffled(uint64_t size, uint64_t seed) {
  OARLOCK_CHECK(size <= ~uint32_t{0});
  std::vector<uint32_t> order(size);
  std::iota(order.begin(), order.end(), 0u);
  RandomSequence random(seed);
  for (uint64_t i = size; i > 1; --i) {
    std::swap(order[i - 1], order[random.Below(i)]);
  }
  return order;
}

}  // namespace

ExampleOrder::ExampleOrder(uint64_t num_examples, const OrderOptions& options)
    : num_examples_(num_examples),
      size_(num_examples * options.num_repeats),
      options_(options),
      num_places_(options.share == nullptr ? size_ : options.share->size()),
      unit_(options.shuffle == ShuffleRule::kGlobal
                ? std::min(kUnitExamples, options.window_examples)
                : options.window_examples),
      seed_(DeriveSeed(options.seed, options.epoch)) {
  OARLOCK_CHECK(options.window_examples > 0);
  OARLOCK_CHECK(options.window_examples <= OrderOptions::kMaxWindowExamples);
  if (options.shuffle == ShuffleRule::kNone) return;
  const uint64_t num_units = (num_places_ + unit_ - 1) / unit_;
  units_ = Shuffled(num_units, DeriveSeed(seed_, kUnitsPurpose));
  short_unit_place_ = num_units;
  if (num_places_ % unit_ == 0) return;
  while (units_[--short_unit_place_] != num_units - 1) {
  }
}

uint64_t ExampleOrder::UnitsAt(uint64_t place) const {
  uint64_t unit = place / unit_;
  uint64_t in_unit = place % unit_;
  if (unit >= short_unit_place_) {
    const uint64_t short_begin = short_unit_place_ * unit_;
    const uint64_t short_size = num_places_ % unit_;
    if (place < short_begin + short_size) {
      unit = short_unit_place_;
      in_unit = place - short_begin;
    } else {
      const uint64_t behind = place - short_begin - short_size;
      unit = short_unit_place_ + 1 + behind / unit_;
      in_unit = behind % unit_;
    }
  }
  return uint64_t{units_[unit]} * unit_ + in_unit;
}

std::vector<uint32_t> ExampleOrder::WindowOrder(uint64_t window) const {
  const uint64_t begin = window * options_.window_examples;
  return Shuffled(std::min(options_.window_examples, num_places_ - begin),
                  DeriveSeed(DeriveSeed(seed_, kWindowPurpose), window));
}

uint64_t OrderCursor::At(uint64_t position) {
  OARLOCK_CHECK(position < order_.size_);
  const OrderOptions& options = order_.options_;
  if (options.shuffle == ShuffleRule::kNone) {
    return position % order_.num_examples_;
  }
  const PositionRuns* const share = options.share.get();
  uint64_t place = share == nullptr ? position : share->OrdinalOf(position);
  const uint64_t window = place / options.window_examples;
  if (window != window_) {
    window_order_ = order_.WindowOrder(window);
    window_ = window;
  }
  const uint64_t begin = window * options.window_examples;
  place = order_.UnitsAt(begin + window_order_[place - begin]);
  return (share == nullptr ? place : share->PositionOf(place)) %
         order_.num_examples_;
}

}  // namespace oarlock::data
