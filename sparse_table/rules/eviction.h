// Which rows go, and how they go while traffic goes on.
//
// A partition is looked through in steps of kCellsPerHold cells. A step reads
// under the shared lock; only when it has found rows to evict does it take the
// lock exclusively and look at those again, since they may have been pushed to
// in between. Cold rows (sparse_table/tier.h) come after those in memory, read
// from disk without a lock; one that moves between the tiers meanwhile may be
// left for the next time.
//
// What goes is decided once. Who keeps a log records the keys of each step, and
// a replay evicts those keys.

#ifndef OARLOCK_SPARSE_TABLE_RULES_EVICTION_H_
#define OARLOCK_SPARSE_TABLE_RULES_EVICTION_H_

#include <cstddef>
#include <cstdint>
#include <optional>

#include "absl/functional/function_ref.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "base/types.h"
#include "proto/v1/table.pb.h"
#include "sparse_table/partition.h"
#include "sparse_table/rows/row_space.h"
#include "sparse_table/rules/score_rule.h"
#include "sparse_table/tier.h"

namespace oarlock::sparse_table {

struct EvictionLimits {
  // Rows without a push for so many ticks go; 0: no limit.
  uint32_t idle_ticks = 0;
  // Rows whose score is below this go.
  std::optional<float> score_min;
  // A partition with more rows than the first is brought down to the second.
  std::optional<size_t> partition_rows_max;
  size_t partition_rows_low = 0;

  bool any() const {
    return idle_ticks != 0 || score_min.has_value() ||
           partition_rows_max.has_value();
  }
};

// InvalidArgument when a field is out of range, or score_min is set without
// statistics. The share of a partition in `rows_max` is rounded down, so that
// all partitions together keep to it.
absl::StatusOr<EvictionLimits> MakeEvictionLimits(
    const v1::EvictionConfig& config, bool has_statistics, int partition_bits);

struct EvictionResult {
  uint64_t examined_rows = 0;
  // Evicted, by the first limit that they were beyond.
  uint64_t idle_rows = 0;
  uint64_t low_score_rows = 0;
  uint64_t capacity_rows = 0;

  uint64_t evicted_rows() const {
    return idle_rows + low_score_rows + capacity_rows;
  }
  EvictionResult& operator+=(const EvictionResult& other);
};

// Cells that are looked at while a partition is locked: some 20 microseconds,
// 100 when all their rows go.
inline constexpr uint32_t kCellsPerHold = 512;

// Cold rows that are read from disk while a partition is locked.
inline constexpr size_t kColdReadsPerHold = 32;

// One step of an eviction, of one thread.
class EvictionStep {
 public:
  // Locks the partition until this is erased or destroyed. Returns the keys
  // that go; errors as ColdRows.
  virtual absl::StatusOr<absl::Span<const Key>> Choose() = 0;
  // Takes their rows away. Errors as ColdRows.
  virtual absl::Status Erase() = 0;

 protected:
  ~EvictionStep() = default;
};

// Does a step, without a lock held at first: calls Choose, then Erase, and
// between them may record the keys. No push is applied to the partition from
// the one to the other. An error ends the eviction.
using DoStep = absl::FunctionRef<absl::Status(EvictionStep& step)>;

// Records nothing.
inline absl::Status DoUnrecorded(EvictionStep& step) {
  const absl::Status chosen = step.Choose().status();
  return chosen.ok() ? step.Erase() : chosen;
}

// A partition and what lies around it.
struct EvictionScope {
  const RowSpace& rows;
  // Null without statistics.
  const ScoreRule* score_rule = nullptr;
  // Null without a memory budget.
  Tier* tier = nullptr;
  PartitionIndex index;
  Partition& partition;
};

// Evicts what is beyond `limits` at `logical_time`, or the latest time that the
// partition knows. What capacity evicts has the lowest score; with equal
// scores, or without, the oldest last touch; then the smallest key. Takes the
// partition's lock: the caller must not hold it. The first step has no keys: it
// tells the partition the time. After an error of `do_step`, or of the disk (as
// ColdRows), some rows have been evicted as a whole, others not at all.
absl::StatusOr<EvictionResult> EvictRows(const EvictionScope& scope,
                                         const EvictionLimits& limits,
                                         uint32_t logical_time, DoStep do_step);

// Does a step again that was recorded. Keys without a row are skipped.
// Takes the partition's lock.
absl::Status EvictKeys(const EvictionScope& scope, absl::Span<const Key> keys,
                       uint32_t logical_time);

}  // namespace oarlock::sparse_table

#endif  // OARLOCK_SPARSE_TABLE_RULES_EVICTION_H_
