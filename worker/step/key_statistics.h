// What a batch tells of its keys beside gradients, for tables that keep
// statistics (accessor CTR).

#ifndef OARLOCK_WORKER_STEP_KEY_STATISTICS_H_
#define OARLOCK_WORKER_STEP_KEY_STATISTICS_H_

#include <cstddef>
#include <cstdint>
#include <vector>

#include "absl/types/span.h"

namespace oarlock::worker {

// Show and click of each distinct key: how many examples of the batch have it,
// however often each, and how many of these have label 1. Reused from batch to
// batch; not thread-safe.
class KeyStatistics {
 public:
  // `row_of_key` says for each key of the examples which of `num_rows` distinct
  // ones it is (KeyBatch::row_of_key). Example i has the keys from
  // offsets[i * num_slots] up to, not including, offsets[(i + 1) * num_slots];
  // without offsets one key a slot. `labels` are 0 or 1.
  void Count(absl::Span<const uint32_t> row_of_key, size_t num_rows,
             absl::Span<const uint32_t> offsets, size_t num_slots,
             absl::Span<const float> labels);

  // [num_rows] each.
  const std::vector<float>& shows() const { return shows_; }
  const std::vector<float>& clicks() const { return clicks_; }

 private:
  std::vector<float> shows_;
  std::vector<float> clicks_;
  // The example that was counted last for each row, from 1.
  std::vector<uint32_t> last_example_;
};

}  // namespace oarlock::worker

#endif  // OARLOCK_WORKER_STEP_KEY_STATISTICS_H_
