#include "worker/epoch/merged_gradients.h"

namespace oarlock::worker {

void MergedGradients::Merge(const std::vector<Source>& sources, size_t dim,
                            int partition_bits) {
  all_keys_.clear();
  for (const Source& source : sources) {
    all_keys_.insert(all_keys_.end(), source.keys->keys().begin(),
                     source.keys->keys().end());
  }
  keys_.Build(all_keys_, partition_bits);
  gradients_.assign(keys_.keys().size() * dim, 0.0f);
  shows_.assign(keys_.keys().size(), 0.0f);
  clicks_.assign(keys_.keys().size(), 0.0f);
  size_t key = 0;
  for (const Source& source : sources) {
    for (size_t i = 0; i < source.keys->keys().size(); ++i, ++key) {
      const uint32_t row = keys_.row_of_key()[key];
      float* const to = &gradients_[row * dim];
      const float* const from = source.gradients + i * dim;
      for (size_t d = 0; d < dim; ++d) to[d] += from[d];
      if (source.shows == nullptr) continue;
      shows_[row] += source.shows[i];
      clicks_[row] += source.clicks[i];
    }
  }
}

}  // namespace oarlock::worker
