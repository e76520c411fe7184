#include "sparse_table/rules/count_sketch.h"

#include <algorithm>
#include <bit>
#include <utility>

#include "base/check.h"
#include "base/random.h"

namespace oarlock::sparse_table {

CountSketch::CountSketch(uint32_t width, uint64_t sum_max)
    : width_(width), sum_max_(sum_max) {
  OARLOCK_CHECK(std::has_single_bit(width));
  OARLOCK_CHECK(sum_max >= 1);
}

std::array<size_t, CountSketch::kDepth> CountSketch::Places(
    uint64_t mix) const {
  // The mixes of one partition's keys agree in their high bits, so they are
  // mixed again: 32 bits of its own for each row.
  static_assert(kDepth == 4);
  const uint64_t low = RandomBits(mix, 1);
  const uint64_t high = RandomBits(mix, 2);
  const uint64_t mask = width_ - 1;
  return {low & mask, width_ + ((low >> 32) & mask),
          2 * size_t{width_} + (high & mask),
          3 * size_t{width_} + ((high >> 32) & mask)};
}

uint32_t CountSketch::Estimate(uint64_t mix) const {
  if (counters_ == nullptr) return 0;
  uint32_t estimate = kCounterMax;
  for (const size_t place : Places(mix)) {
    estimate = std::min<uint32_t>(estimate, (*counters_)[place]);
  }
  return estimate;
}

uint32_t CountSketch::Add(uint64_t mix, uint32_t weight) {
  if (counters_ == nullptr || shared_) [[unlikely]]
    MakeOwn();
  std::vector<uint16_t>& counters = *counters_;
  const std::array<size_t, kDepth> places = Places(mix);
  uint32_t before = kCounterMax;
  for (const size_t place : places) {
    before = std::min<uint32_t>(before, counters[place]);
  }
  const uint32_t after =
      std::min(kCounterMax, before + std::min(weight, kCounterMax));
  for (const size_t place : places) {
    counters[place] = std::max(counters[place], static_cast<uint16_t>(after));
  }
  sum_ += weight;
  if (sum_ >= sum_max_) Halve();
  return after;
}

void CountSketch::MakeOwn() {
  counters_ = counters_ == nullptr
                  ? std::make_shared<std::vector<uint16_t>>(num_counters())
                  : std::make_shared<std::vector<uint16_t>>(*counters_);
  shared_ = false;
}

void CountSketch::Restore(uint64_t sum, std::vector<uint16_t> counters) {
  OARLOCK_CHECK(counters.size() == num_counters());
  sum_ = sum;
  counters_ = std::make_shared<std::vector<uint16_t>>(std::move(counters));
  shared_ = false;
}

void CountSketch::Halve() {
  for (uint16_t& counter : *counters_) counter >>= 1;
  sum_ /= 2;
}

}  // namespace oarlock::sparse_table
