// A geo worker's own rows of one sparse table: those that it has touched, with
// the optimizer state of its steps and what it has not told the servers yet.

#ifndef OARLOCK_WORKER_GEO_GEO_ROWS_H_
#define OARLOCK_WORKER_GEO_GEO_ROWS_H_

#include <cstddef>
#include <cstdint>
#include <memory>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "absl/types/span.h"
#include "base/types.h"
#include "client/key_batch.h"
#include "optim/rules.h"

namespace oarlock::worker {

// Changes of rows, as a push carries them.
struct GeoChanges {
  client::KeyBatch keys;
  // [keys, dim]: before - after, which a geo table subtracts.
  std::vector<float> differences;
  // [keys] each.
  std::vector<float> shows;
  std::vector<float> clicks;
};

// Not thread-safe; const functions may run at once.
//
// A row is [weights, base, state, show, click]: `dim` weights as they are here,
// what the servers are known to have of them, the rule's state, and counts that
// were not pushed yet. Invariants:
// 1. weights - base is what was trained here and is not in `TakeChanges` yet.
// 2. After TakeChanges weights and base are both base - (base - weights) as
//    floats: what a server comes to that had the base.
// 3. The state is never told and never replaced; it goes with its row.
class GeoRows {
 public:
  // `partition_bits` as in KeyBatch::Build.
  GeoRows(const optim::UpdateRule& rule, size_t dim, int partition_bits);

  size_t dim() const { return dim_; }
  size_t num_rows() const { return keys_.size(); }
  // Floats of memory that a row takes.
  size_t row_floats() const { return stride_; }

  // Sets `rows` to the number of each key's row. A key without one gets it,
  // with fresh state, and is added to `missing`: Install must come before
  // anything else is asked of it. Numbers hold until Shrink.
  void Find(absl::Span<const Key> keys, std::vector<uint32_t>* rows,
            std::vector<Key>* missing);
  // Adds those of `keys` that have a row to `kept`.
  void FindKept(absl::Span<const Key> keys, std::vector<Key>* kept) const;
  // Keys of all rows.
  const std::vector<Key>& keys() const { return keys_; }

  // What the servers have, [keys, dim]. Rows with changes that were not taken
  // keep them: weights become `values` + (weights - base). REQUIRES: every key
  // has a row.
  void Install(absl::Span<const Key> keys, const float* values);

  // Copies the weights to `values`, [rows, dim].
  void Gather(absl::Span<const uint32_t> rows, float* values) const;

  // One step: updates the row of each key by its gradient, [keys, dim]. `rows`
  // are theirs. The learning rate goes by the number of steps that a partition
  // has seen here, as servers count pushes.
  void Apply(const client::KeyBatch& keys, absl::Span<const uint32_t> rows,
             const float* gradients);
  // Adds to the counts of the rows; [rows] each.
  void Count(absl::Span<const uint32_t> rows, const float* shows,
             const float* clicks);

  // What has changed since it was called last: every row that Apply was called
  // for. With `statistics` counts too.
  void TakeChanges(bool statistics, GeoChanges* changes);

  // Drops rows until there are at most `rows_max`: those that were not touched
  // since the last but one TakeChanges, if there are more rows than that; of
  // the others none. REQUIRES: nothing was applied since TakeChanges.
  void Shrink(size_t rows_max);

 private:
  static constexpr size_t kChunkRows = 4096;

  float* Row(uint32_t row) const {
    return chunks_[row / kChunkRows].get() + row % kChunkRows * stride_;
  }
  float* Weights(uint32_t row) const { return Row(row); }
  float* Base(uint32_t row) const { return Row(row) + dim_; }
  float* State(uint32_t row) const { return Row(row) + 2 * dim_; }
  // Show, then click.
  float* Counts(uint32_t row) const { return Row(row) + stride_ - 2; }
  void Touch(uint32_t row);

  const optim::UpdateRule rule_;
  const size_t dim_;
  const size_t stride_;
  const int partition_bits_;

  absl::flat_hash_map<Key, uint32_t> row_of_key_;
  // By row. `last_touch_` is the number of the exchange that took the last
  // change, or will take it.
  std::vector<Key> keys_;
  std::vector<uint32_t> last_touch_;
  std::vector<std::unique_ptr<float[]>> chunks_;

  // Rows that Apply was called for since TakeChanges; each once.
  std::vector<uint32_t> touched_;
  // Numbers exchanges, from 1, so that a new row was touched in none.
  uint32_t exchange_ = 1;
  // By partition: steps that had keys of it.
  std::vector<uint64_t> steps_;
  std::vector<Key> touched_keys_;
};

}  // namespace oarlock::worker

#endif  // OARLOCK_WORKER_GEO_GEO_ROWS_H_
