// Which positions of an epoch each reader takes, decided beforehand.

#ifndef OARLOCK_DATA_ORDER_STATIC_SPLIT_H_
#define OARLOCK_DATA_ORDER_STATIC_SPLIT_H_

#include <cstdint>
#include <optional>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/status/statusor.h"
#include "absl/synchronization/mutex.h"
#include "data/order/example_intervals.h"
#include "data/order/position_runs.h"
#include "data/range_source.h"

namespace oarlock::data {

// The three ways of the MNIST document to divide a data set, for files of many
// examples each; readers are numbered from 0 to n - 1.
enum class SplitRule {
  // Everybody knows all examples and takes a batch in turn: block g of
  // block_examples positions is reader g mod n's.
  kInterleaved,
  // Equal runs: reader r gets the r-th, so each opens its own files only, and
  // shares one at a border. The first (size mod n) readers have one more.
  kContiguous,
  // Whole files in turn: file f is reader (f mod n)'s.
  kByFile,
};

struct SplitOptions {
  SplitRule rule = SplitRule::kInterleaved;
  uint64_t num_readers = 1;     // at least 1
  uint64_t block_examples = 1;  // at least 1
  // Leaves out, from each reader's end, what not every reader has a full block
  // of: all have equally many then.
  bool drop_tail = false;
};

// The runs of all readers, [num_readers], each ascending. Positions are those
// of files of examples_per_file[i] examples one after the other, all of them
// num_copies times. Together they are all positions, each once, but for the
// dropped ones.
std::vector<std::vector<PositionRun>> SplitPositions(
    const std::vector<uint64_t>& examples_per_file, uint32_t num_copies,
    const SplitOptions& options);

// One reader's positions, block by block: blocks go over the borders of runs,
// and each ends its batch (DataRange::ends_batch), so a malformed line makes
// one batch shorter and moves no other. Positions in `covered` (null: none) are
// left out, and so is a block of nothing else. Items are of source `source`,
// and tell no byte offsets. Thread-safe; for one epoch.
class RunSplit : public RangeSource {
 public:
  // `covered` outlives this.
  RunSplit(std::vector<PositionRun> runs, uint64_t block_examples,
           uint32_t source, const ExampleIntervals* covered);

  absl::StatusOr<std::optional<DataRange>> Next() override;
  void Done(const DataRange&) override {}

  // Blocks that Next gives, or has given, something of.
  uint64_t num_blocks() const { return num_blocks_; }

 private:
  std::vector<DataRange> items_;
  uint64_t num_blocks_ = 0;
  absl::Mutex mutex_;
  size_t next_ ABSL_GUARDED_BY(mutex_) = 0;
};

}  // namespace oarlock::data

#endif  // OARLOCK_DATA_ORDER_STATIC_SPLIT_H_
