#include "data/rows/group_order.h"

#include <algorithm>
#include <numeric>

#include "base/check.h"
#include "base/random.h"

namespace oarlock::data {
namespace {

// Separate the drawing of units from that of rows.
constexpr uint64_t kUnitsPurpose = 0x67726f757073;
constexpr uint64_t kRowsPurpose = 0x726f7773;

void Shuffle(uint64_t seed, std::vector<uint32_t>* order) {
  RandomSequence random(seed);
  for (uint64_t i = order->size(); i > 1; --i) {
    std::swap((*order)[i - 1], (*order)[random.Below(i)]);
  }
}

std::vector<uint32_t> Ascending(uint64_t size) {
  OARLOCK_CHECK(size <= ~uint32_t{0});
  std::vector<uint32_t> order(size);
  std::iota(order.begin(), order.end(), 0u);
  return order;
}

}  // namespace

GroupOrder::GroupOrder(const std::vector<uint64_t>& unit_rows,
                       const GroupOrderOptions& options)
    : seed_(DeriveSeed(options.seed, options.epoch)),
      shuffles_(options.shuffle != ShuffleRule::kNone) {
  OARLOCK_CHECK(options.window_units > 0 && options.num_workers > 0);
  const uint64_t units_seed = DeriveSeed(seed_, kUnitsPurpose);
  uint64_t position = 0;
  for (uint32_t worker = 0; worker < options.num_workers; ++worker) {
    for (uint32_t copy = 0; copy < options.num_repeats; ++copy) {
      const uint64_t copy_seed = DeriveSeed(units_seed, copy);
      std::vector<uint32_t> all = Ascending(unit_rows.size());
      if (options.shuffle == ShuffleRule::kGlobal) Shuffle(copy_seed, &all);
      std::vector<uint32_t> own;
      for (uint64_t g = worker; g < all.size(); g += options.num_workers) {
        own.push_back(all[g]);
      }
      if (options.shuffle == ShuffleRule::kLocal) {
        Shuffle(DeriveSeed(copy_seed, worker), &own);
      }
      for (uint64_t begin = 0; begin < own.size();) {
        const uint64_t end =
            std::min<uint64_t>(own.size(), begin + options.window_units);
        Window& window = windows_.emplace_back();
        window.worker = worker;
        window.units.assign(own.begin() + begin, own.begin() + end);
        window.begin = position;
        for (const uint32_t unit : window.units) position += unit_rows[unit];
        window.end = position;
        begin = end;
      }
    }
  }
}

ExampleRange GroupOrder::PositionsOf(uint32_t worker) const {
  ExampleRange range;
  for (const Window& window : windows_) {
    if (window.worker != worker) continue;
    if (range.end == 0) range.begin = window.begin;
    range.end = window.end;
  }
  return range;
}

uint32_t GroupOrder::WindowOf(uint64_t position) const {
  const auto window = std::partition_point(
      windows_.begin(), windows_.end(),
      [&](const Window& each) { return each.end <= position; });
  OARLOCK_CHECK(window != windows_.end());
  return static_cast<uint32_t>(window - windows_.begin());
}

std::vector<uint32_t> GroupOrder::RowsOf(uint32_t window) const {
  if (!shuffles_) return {};
  const Window& of = windows_[window];
  std::vector<uint32_t> rows = Ascending(of.end - of.begin);
  Shuffle(DeriveSeed(DeriveSeed(seed_, kRowsPurpose), window), &rows);
  return rows;
}

}  // namespace oarlock::data
