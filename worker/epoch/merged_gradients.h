// The gradients of several compute threads as one.

#ifndef OARLOCK_WORKER_EPOCH_MERGED_GRADIENTS_H_
#define OARLOCK_WORKER_EPOCH_MERGED_GRADIENTS_H_

#include <cstddef>
#include <vector>

#include "base/types.h"
#include "client/key_batch.h"

namespace oarlock::worker {

// Sums sparse gradients of several key batches key by key, and their
// statistics, in the order in which they are given, so that the result is the
// same in every run. Reused from round to round; not thread-safe.
class MergedGradients {
 public:
  struct Source {
    const client::KeyBatch* keys = nullptr;
    const float* gradients = nullptr;  // [keys, dim]
    // [keys] each, or null.
    const float* shows = nullptr;
    const float* clicks = nullptr;
  };
  void Merge(const std::vector<Source>& sources, size_t dim,
             int partition_bits);

  const client::KeyBatch& keys() const { return keys_; }
  const float* gradients() const { return gradients_.data(); }
  // [keys] each.
  const float* shows() const { return shows_.data(); }
  const float* clicks() const { return clicks_.data(); }

 private:
  std::vector<Key> all_keys_;
  client::KeyBatch keys_;
  std::vector<float> gradients_;
  std::vector<float> shows_;
  std::vector<float> clicks_;
};

}  // namespace oarlock::worker

#endif  // OARLOCK_WORKER_EPOCH_MERGED_GRADIENTS_H_
