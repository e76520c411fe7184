// Which positions of an epoch each reader takes, decided beforehand.

#ifndef OARLOCK_DATA_ORDER_STATIC_SPLIT_H_
#define OARLOCK_DATA_ORDER_STATIC_SPLIT_H_

#include <cstdint>
#include <optional>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/status/statusor.h"
#include "absl/synchronization/mutex.h"
#include "data/batch.h"
#include "data/order/example_intervals.h"
#include "data/order/position_runs.h"
#include "data/range_source.h"

namespace oarlock::data {

// The three ways of dividing a data set in the MNIST document, for files of
// many examples each. Readers are numbered from 0 to n - 1.
enum class SplitRule {
  // Readers take batches of all examples in turn: reader g mod n gets block g
  // of block_examples positions.
  kInterleaved,
  // Equal runs: reader r gets the r-th run, so each reader opens only its own
  // files and shares a file at a border. The first (size mod n) readers have
  // one position more.
  kContiguous,
  // Whole files in turn: reader f mod n gets file f.
  kByFile,
};

struct SplitOptions {
  SplitRule rule = SplitRule::kInterleaved;
  uint64_t num_readers = 1;     // at least 1
  uint64_t block_examples = 0;  // at least 1
  // Shortens all readers, at their ends, to the length of the shortest one,
  // rounded down to full blocks. So all readers have equally many positions.
  bool drop_tail = false;
};

// The runs of all readers, [num_readers], each ascending. The positions are
// those of `num_copies` copies of the data one after the other. A copy is all
// files one after the other; file i has examples_per_file[i] examples. Together
// the runs contain every position once, except for the dropped ones.
std::vector<std::vector<PositionRun>> SplitPositions(
    const std::vector<uint64_t>& examples_per_file, uint32_t num_copies,
    const SplitOptions& options);

// The same runs, of that source.
std::vector<ExampleRange> RangesOf(const std::vector<PositionRun>& runs,
                                   uint32_t source);

// One reader's positions, block by block. A block may extend over the borders
// of runs. Each block ends its batch (DataRange::ends_batch), so a malformed
// line makes one batch shorter and does not move other batches. Positions in
// `covered` (null: no positions) are skipped, and so is a block that has only
// such positions. Items have no byte offsets.
// Thread-safe. A split is for one epoch.
class RunSplit : public RangeSource {
 public:
  // `covered` outlives this object.
  RunSplit(const std::vector<ExampleRange>& runs, uint64_t block_examples,
           const ExampleIntervals* covered);

  absl::StatusOr<std::optional<DataRange>> Next() override;
  void Done(const DataRange&) override {}

  // Number of blocks of which Next returns, or has returned, an item.
  uint64_t num_blocks() const { return num_blocks_; }

 private:
  std::vector<DataRange> items_;
  uint64_t num_blocks_ = 0;
  absl::Mutex mutex_;
  size_t next_ ABSL_GUARDED_BY(mutex_) = 0;
};

}  // namespace oarlock::data

#endif  // OARLOCK_DATA_ORDER_STATIC_SPLIT_H_
