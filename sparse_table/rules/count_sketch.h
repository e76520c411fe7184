// How often keys have come that have no row, in bounded memory: a count-min
// sketch (Cormode and Muthukrishnan, "An improved data stream summary", 2005)
// with conservative update (Estan and Varghese, "New directions in traffic
// measurement", 2002) that forgets by halves.
//
// kDepth rows of `width` counters of 16 bits. A key has one counter in each
// row, and its estimate is their minimum; adding to a key raises only those of
// its counters that are below the new estimate. Counters stay at 65,535.
//
// Error, until counters are halved for the first time: the estimate of a key is
// never below its true sum; with N the sum over all keys, it is above it by
// more than e * N / width with a probability of at most e^-kDepth = 1.8 %.
// So that N stays bounded, all counters and N are halved (rounded down) when N
// reaches `sum_max`: the estimate then stands for recent sums, and e * sum_max
// / width bounds the error at any time with that probability. Between two
// halvings an estimate grows by at least what is added to its key.

#ifndef OARLOCK_SPARSE_TABLE_RULES_COUNT_SKETCH_H_
#define OARLOCK_SPARSE_TABLE_RULES_COUNT_SKETCH_H_

#include <array>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <vector>

namespace oarlock::sparse_table {

// Guarded by the lock of its partition, with which it travels.
class CountSketch {
 public:
  static constexpr int kDepth = 4;
  static constexpr uint32_t kCounterMax = 0xffff;

  // REQUIRES: `width` is a power of two, `sum_max` at least 1.
  CountSketch(uint32_t width, uint64_t sum_max);

  // Adds `weight` to the key with this mix; returns its estimate after that.
  uint32_t Add(uint64_t mix, uint32_t weight);
  // 0 for a key that never came, but for the error.
  uint32_t Estimate(uint64_t mix) const;

  // What has been added, halved with the counters.
  uint64_t sum() const { return sum_; }

  // What the sketch remembers.
  struct Counts {
    uint64_t sum = 0;
    // Row after row. Null before the first Add: a server has partitions that it
    // does not own.
    std::shared_ptr<const std::vector<uint16_t>> counters;
  };
  // As it is now, whatever is added later: the next Add copies the counters,
  // not this. The caller may look at them without the lock.
  Counts Share() {
    shared_ = counters_ != nullptr;
    return {sum_, counters_};
  }
  // How many counters there are after the first Add.
  size_t num_counters() const { return size_t{kDepth} * width_; }
  // Replaces what it remembers. REQUIRES: `counters` has num_counters().
  void Restore(uint64_t sum, std::vector<uint16_t> counters);

  size_t bytes() const {
    return counters_ == nullptr ? 0 : num_counters() * sizeof(uint16_t);
  }

 private:
  // Where the key's counters are.
  std::array<size_t, kDepth> Places(uint64_t mix) const;
  void Halve();
  void MakeOwn();

  const uint32_t width_;
  const uint64_t sum_max_;
  uint64_t sum_ = 0;
  // Shared with those who asked for it: not changed while shared_ is set.
  std::shared_ptr<std::vector<uint16_t>> counters_;
  bool shared_ = false;
};

}  // namespace oarlock::sparse_table

#endif  // OARLOCK_SPARSE_TABLE_RULES_COUNT_SKETCH_H_
