// Which examples a rank takes in which batch, when every rank can reach all of
// them.

#ifndef OARLOCK_DATA_ORDER_DISTRIBUTED_BATCH_SAMPLER_H_
#define OARLOCK_DATA_ORDER_DISTRIBUTED_BATCH_SAMPLER_H_

#include <cstddef>
#include <cstdint>
#include <vector>

#include "absl/status/statusor.h"

namespace oarlock::data {

// What is done with examples that do not come out even.
enum class TailRule {
  // Padded: the order begins again from its front until all ranks have equally
  // many. Every example is taken; the last batch may be short.
  kPad,
  // Dropped, so that all ranks have equally many: fewer than `size` examples.
  // The last batch may be short.
  kDropUneven,
  // Dropped, so that all updates are full (drop_last): fewer than
  // `size * batch_size * batches_per_update` examples. May leave nothing.
  kDropShort,
};

// Whose order it is.
enum class SampleRule {
  // All ranks share one order and take turns, a batch each: without
  // replacement, an epoch has every example once. What the ranks take in a step
  // is what one rank takes with their batches together, in the same order.
  kShared,
  // Each rank takes all examples in an order of its own: with replacement, an
  // epoch has every example `size` times.
  kOwn,
};

// An example that is to be read.
struct Sample {
  uint64_t example = 0;
  // Which time it is that this example is taken: different for each time, the
  // same on any number of threads. Padding has the repeat of what it stands
  // for.
  uint64_t repeat = 0;

  friend bool operator==(const Sample&, const Sample&) = default;
};

struct SampledBatch {
  std::vector<Sample> samples;
  // Those after the first `num_counted` are padding, there for the rhythm of
  // the ranks only: evaluation leaves them out, and so counts each example
  // once.
  size_t num_counted = 0;
};

struct SamplerOptions {
  static constexpr uint32_t kMaxSize = 1u << 16;
  static constexpr uint32_t kMaxBatchSize = 1u << 20;
  static constexpr uint32_t kMaxRepeats = 1u << 16;

  // Examples of the data set, at least 1.
  uint64_t num_examples = 0;
  // Of a rank; 1 to kMaxBatchSize.
  uint32_t batch_size = 1;
  // Whose gradients are accumulated; 1 to kMaxBatchSize.
  uint32_t batches_per_update = 1;
  // Below `size`.
  uint32_t rank = 0;
  // Ranks, 1 to kMaxSize.
  uint32_t size = 1;
  bool shuffle = false;
  // The same on all ranks.
  uint64_t seed = 0;
  TailRule tail = TailRule::kPad;
  SampleRule rule = SampleRule::kShared;
  // The data set is repeated so often and shuffled as a whole: where the
  // number of repeats is known, they become one epoch, which loses less at its
  // only tail and knows no borders. 1 to kMaxRepeats.
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
  // Of the rank, padding included.
  uint64_t num_samples_ = 0;
  // Places in the repeated data set; empty: 0, 1, 2, ...
  std::vector<uint64_t> order_;
};

// With M = num_examples * num_repeats, an epoch's order is 0 to M - 1,
// shuffled by (seed, epoch) and under kOwn the rank; place m of it stands for
// example m modulo num_examples.
//
// kShared: the b-th batches of all ranks, in the order of the ranks, are the
// order's positions from b * size * batch_size on: k ranks with batch size n
// take in each step what one rank with batch size k * n takes, as long as the
// step needs no padding. kPad: position p >= M holds what position p modulo M
// holds. kOwn: positions 0, 1, 2 ... of the rank's own order.
//
// All ranks have the same number of batches, and batches of the same size, so
// that none waits for a step that the others do not take.
//
// PaddlePaddle's DistributedBatchSampler also pads from the front, but before
// it shuffles; its drop_last drops what is short after padding, so that up to
// size - 1 examples may be repeated in a last full batch, where kDropShort
// drops that batch.
class DistributedBatchSampler {
 public:
  // InvalidArgument when an option is outside its range.
  static absl::StatusOr<DistributedBatchSampler> Create(
      const SamplerOptions& options);

  // Batches of a rank in an epoch: the same on all ranks, in all epochs.
  uint64_t num_batches() const { return num_batches_; }
  const SamplerOptions& options() const { return options_; }

  // Epoch number `epoch`, counted from 0. Takes memory for M numbers if it
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
