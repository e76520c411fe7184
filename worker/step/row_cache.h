// Which rows a compute thread's executor caches from batch to batch, so that
// hot ones need not be pulled for every batch: a cache over the servers, in the
// memory of whatever computes.
//
// Here is only which row is cached where; the rows lie with the executor
// (CachedRows in nn/math_backend.h). A batch is planned before its rows are
// asked for, and computed after the batches that were planned before it, so an
// entry holds what the plan says when its batch is computed.
//
// Gradients are pushed as without a cache. What is cached does not follow them:
// a row is pulled again when it is needed more than `max_steps` batches after
// it was pulled, so it lacks at most the pushes of that time, the compute
// thread's own among them. Which rows stay is decided by CLOCK: a row that was
// not used since the hand last passed gives its entry to a new one.

#ifndef OARLOCK_WORKER_STEP_ROW_CACHE_H_
#define OARLOCK_WORKER_STEP_ROW_CACHE_H_

#include <cstddef>
#include <cstdint>
#include <deque>
#include <utility>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "absl/types/span.h"
#include "base/types.h"
#include "client/parameter_client.h"

namespace oarlock::worker {

// Where the rows of a batch's distinct keys come from; see CachedRows.
struct RowPlan {
  // To be pulled: the batch's missed rows, in this order.
  std::vector<Key> missed_keys;
  std::vector<uint32_t> miss_of_row;
  std::vector<uint32_t> entry_of_row;
  // Number of the batch among those planned, from 1, and of the oldest one that
  // a row of it was pulled for.
  uint64_t step = 0;
  uint64_t oldest_step = 0;
};

// Of one compute thread and one sparse input. Not thread-safe.
class RowCache {
 public:
  // Caches up to `cache_rows` rows, at least 1, each for its own batch and up
  // to `max_steps` after it.
  RowCache(size_t cache_rows, uint64_t max_steps);

  size_t cache_rows() const { return key_of_entry_.size(); }

  // Plans the next batch. `keys` are distinct. One hash lookup a key, two for
  // one that is not cached, and a step of the hand or a few.
  void Plan(absl::Span<const Key> keys, RowPlan* plan);

 private:
  // An entry for a new row, or CachedRows::kNone when this batch uses all of
  // them.
  uint32_t TakeEntry();

  const uint64_t max_steps_;
  uint64_t step_ = 0;
  absl::flat_hash_map<Key, uint32_t> entry_of_key_;
  // By entry.
  std::vector<Key> key_of_entry_;
  std::vector<uint64_t> pulled_step_;  // 0: the entry is empty
  std::vector<uint64_t> used_step_;
  std::vector<bool> used_since_hand_;
  size_t hand_ = 0;
  bool is_full_ = false;  // of rows of the batch being planned
};

// Versions of a table at the pulls of a compute thread's last batches, to tell
// how old rows are that were pulled for one of them. Not thread-safe.
class PulledVersions {
 public:
  explicit PulledVersions(uint64_t max_steps) : max_steps_(max_steps) {}
  // Records the versions that the pull of batch `step` was told, and makes of
  // them the oldest that a row pulled since batch `oldest_step` may have. Steps
  // ascend.
  void Record(uint64_t step, uint64_t oldest_step,
              client::TableVersions* versions);

 private:
  const uint64_t max_steps_;
  std::deque<std::pair<uint64_t, client::TableVersions>> pulls_;
};

}  // namespace oarlock::worker

#endif  // OARLOCK_WORKER_STEP_ROW_CACHE_H_
