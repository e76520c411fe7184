// Histograms whose buckets double in size: 0, 1, 2 to 3, 4 to 7 ...

#ifndef OARLOCK_BASE_LOG2_HISTOGRAM_H_
#define OARLOCK_BASE_LOG2_HISTOGRAM_H_

#include <bit>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <limits>

namespace oarlock {

// The bucket of a number: bucket i holds 2^(i-1) .. 2^i - 1, bucket 0 zeros.
inline size_t Log2Bucket(uint64_t value) { return std::bit_width(value); }

// Upper end of the bucket up to which `share` of what was counted lies; NaN
// where nothing was. `counts` is any range of numbers, by bucket.
template <typename Counts>
double Log2Quantile(const Counts& counts, double share) {
  uint64_t total = 0;
  for (const uint64_t count : counts) total += count;
  if (total == 0) return std::numeric_limits<double>::quiet_NaN();
  uint64_t below = 0;
  int bucket = 0;
  for (const uint64_t count : counts) {
    below += count;
    if (static_cast<double>(below) >= share * static_cast<double>(total)) break;
    ++bucket;
  }
  return std::ldexp(1.0, bucket) - 1;
}

}  // namespace oarlock

#endif  // OARLOCK_BASE_LOG2_HISTOGRAM_H_
