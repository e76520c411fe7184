#include "worker/step/key_statistics.h"

namespace oarlock::worker {

void KeyStatistics::Count(absl::Span<const uint32_t> row_of_key,
                          size_t num_rows, absl::Span<const uint32_t> offsets,
                          size_t num_slots, absl::Span<const float> labels) {
  shows_.assign(num_rows, 0.0f);
  clicks_.assign(num_rows, 0.0f);
  last_example_.assign(num_rows, 0);
  for (uint32_t i = 0; i < labels.size(); ++i) {
    const size_t first = i * num_slots;
    const size_t last = first + num_slots;
    const size_t begin = offsets.empty() ? first : offsets[first];
    const size_t end = offsets.empty() ? last : offsets[last];
    const float click = labels[i] > 0.5f ? 1.0f : 0.0f;
    for (size_t k = begin; k < end; ++k) {
      const uint32_t row = row_of_key[k];
      if (last_example_[row] == i + 1) continue;
      last_example_[row] = i + 1;
      shows_[row] += 1;
      clicks_[row] += click;
    }
  }
}

}  // namespace oarlock::worker
