// Decides which examples a rank takes in which batch, when every rank can read
// all examples.

#ifndef OARLOCK_DATA_ORDER_DISTRIBUTED_BATCH_SAMPLER_H_
#define OARLOCK_DATA_ORDER_DISTRIBUTED_BATCH_SAMPLER_H_

#include <cstddef>
#include <cstdint>
#include <vector>

#include "absl/status/statusor.h"

namespace oarlock::data {

// What happens to the last examples when the ranks or the updates do not divide
// their number.
enum class TailRule {
  // Padded: the order starts again from its front until all ranks have equally
  // many examples. Every example is taken; the last batch may be short.
  kPad,
  // Dropped, so that all ranks have equally many. Fewer than `size` examples
  // are dropped. The last batch may be short.
  kDropUneven,
  // Dropped, so that all updates are full (drop_last). Fewer than `size *
  // batch_size * batches_per_update` examples are dropped. This may leave no
  // example.
  kDropShort,
};

// Whether the ranks share an order.
enum class SampleRule {
  // All ranks share one order and take turns, a batch each. This is sampling
  // without replacement: an epoch has every example once. In a step, the ranks
  // together take what a single rank with a batch of their total size takes, in
  // the same order.
  kShared,
  // Each rank takes all examples in an order of its own. This is sampling with
  // replacement: an epoch has every example `size` times.
  kOwn,
};

// An example to be read.
struct Sample {
  uint64_t example = 0;
  // Counts how often this example has been taken: different each time, the same
  // on any number of threads. Padding has the repeat of the sample that it
  // duplicates.
  uint64_t repeat = 0;

  friend bool operator==(const Sample&, const Sample&) = default;
};

struct SampledBatch {
  std::vector<Sample> samples;
  // The samples after the first `num_counted` are padding, which only gives all
  // ranks the same number of samples. Evaluation skips padding, so it counts
  // each example once.
  size_t num_counted = 0;
};

struct SamplerOptions {
  static constexpr uint32_t kMaxSize = 1u << 16;
  static constexpr uint32_t kMaxBatchSize = 1u << 20;
  static constexpr uint32_t kMaxRepeats = 1u << 16;

  // Examples of the data set, at least 1.
  uint64_t num_examples = 0;
  // Examples of a rank's batch; 1 to kMaxBatchSize.
  uint32_t batch_size = 0;
  // Batches of a rank whose gradients are accumulated for one update; 1 to
  // kMaxBatchSize.
  uint32_t batches_per_update = 1;
  // This rank; below `size`.
  uint32_t rank = 0;
  // Number of ranks, 1 to kMaxSize.
  uint32_t size = 1;
  bool shuffle = false;
  // The same on all ranks.
  uint64_t seed = 0;
  TailRule tail = TailRule::kPad;
  SampleRule rule = SampleRule::kShared;
  // An epoch is this number of repeats of the data set, shuffled as a whole. It
  // has one tail instead of one per repeat, so it loses fewer examples, and the
  // order has no borders between repeats. 1 to kMaxRepeats.
  uint32_t num_repeats = 1;
};

// One epoch of one rank. Immutable and thread-safe.
class EpochBatches {
 public:
  uint64_t size() const { return num_batches_; }
  // REQUIRES: index < size().
  SampledBatch Batch(uint64_t index) const;

 private:
  friend class DistributedBatchSampler;
  EpochBatches() = default;

  SamplerOptions options_;
  uint64_t epoch_ = 0;
  uint64_t num_batches_ = 0;
  // Samples of the rank, padding included.
  uint64_t num_samples_ = 0;
  // Places in the repeated data set; empty: 0, 1, 2, ...
  std::vector<uint64_t> order_;
};

// With M = num_examples * num_repeats, an epoch's order is 0 to M - 1, shuffled
// by (seed, epoch), and under kOwn also by the rank. Element m of it stands for
// example m modulo num_examples.
//
// kShared: the b-th batches of all ranks, in the order of the ranks, are the
// order's positions from b * size * batch_size on. So k ranks with batch size n
// take in each step what one rank with batch size k * n takes, as long as the
// step needs no padding. kPad: position p >= M holds what position p modulo M
// holds. kOwn: a rank takes positions 0, 1, 2 ... of its own order.
//
// All ranks have the same number of batches, and batches of the same size. So
// no rank waits for a step that the others do not take.
//
// PaddlePaddle's DistributedBatchSampler also pads from the front, but before
// it shuffles. Its drop_last drops a batch that is short after padding. So its
// last full batch may repeat up to size - 1 examples, where kDropShort drops
// that batch.
class DistributedBatchSampler {
 public:
  // InvalidArgument when an option is outside its range.
  static absl::StatusOr<DistributedBatchSampler> Create(
      const SamplerOptions& options);

  // Number of batches of a rank in an epoch: the same on all ranks, in all
  // epochs.
  uint64_t num_batches() const { return num_batches_; }
  const SamplerOptions& options() const { return options_; }

  // Epoch number `epoch`, counted from 0. Allocates memory for M numbers if it
  // shuffles.
  EpochBatches Epoch(uint64_t epoch) const;

 private:
  explicit DistributedBatchSampler(const SamplerOptions& options);

  SamplerOptions options_;
  uint64_t num_samples_ = 0;
  uint64_t num_batches_ = 0;
};

}  // namespace oarlock::data

#endif  // OARLOCK_DATA_ORDER_DISTRIBUTED_BATCH_SAMPLER_H_
