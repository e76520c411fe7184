#include "data/order/distributed_batch_sampler.h"

#include <algorithm>
#include <numeric>
#include <utility>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"
#include "base/check.h"
#include "base/random.h"
#include "base/status_macros.h"

namespace oarlock::data {
namespace {

// Separates the shuffling of examples from other uses of the seed.
constexpr uint64_t kShufflePurpose = 0x73616d706c657273;

absl::Status CheckRange(absl::string_view field, uint64_t value, uint64_t low,
                        uint64_t high) {
  if (value >= low && value <= high) return absl::OkStatus();
  return absl::InvalidArgumentError(
      absl::StrCat("sampler: ", field, " is ", value, "; legal is ", low,
                   " to ", high, "; correct the sampler's options"));
}

uint64_t PlacesOf(const SamplerOptions& options) {
  return options.num_examples * options.num_repeats;
}

// Number of ranks that share an order.
uint64_t SharersOf(const SamplerOptions& options) {
  return options.rule == SampleRule::kShared ? options.size : 1;
}

}  // namespace

absl::StatusOr<DistributedBatchSampler> DistributedBatchSampler::Create(
    const SamplerOptions& options) {
  OARLOCK_RETURN_IF_ERROR(CheckRange("num_repeats", options.num_repeats, 1,
                                     SamplerOptions::kMaxRepeats));
  // This limit keeps positions in range, padding included.
  constexpr uint64_t kMaxPlaces = uint64_t{1} << 40;
  OARLOCK_RETURN_IF_ERROR(CheckRange("num_examples", options.num_examples, 1,
                                     kMaxPlaces / options.num_repeats));
  OARLOCK_RETURN_IF_ERROR(CheckRange("batch_size", options.batch_size, 1,
                                     SamplerOptions::kMaxBatchSize));
  OARLOCK_RETURN_IF_ERROR(CheckRange("batches_per_update",
                                     options.batches_per_update, 1,
                                     SamplerOptions::kMaxBatchSize));
  OARLOCK_RETURN_IF_ERROR(
      CheckRange("size", options.size, 1, SamplerOptions::kMaxSize));
  OARLOCK_RETURN_IF_ERROR(
      CheckRange("rank", options.rank, 0, options.size - 1));
  return DistributedBatchSampler(options);
}

DistributedBatchSampler::DistributedBatchSampler(const SamplerOptions& options)
    : options_(options) {
  const uint64_t places = PlacesOf(options);
  const uint64_t sharers = SharersOf(options);
  const uint64_t batch_size = options.batch_size;
  const uint64_t update_size = batch_size * options.batches_per_update;
  switch (options.tail) {
    case TailRule::kPad:
      num_samples_ = (places + sharers - 1) / sharers;
      break;
    case TailRule::kDropUneven:
      num_samples_ = places / sharers;
      break;
    case TailRule::kDropShort:
      num_samples_ = places / (sharers * update_size) * update_size;
      break;
  }
  num_batches_ = (num_samples_ + batch_size - 1) / batch_size;
}

EpochBatches DistributedBatchSampler::Epoch(uint64_t epoch) const {
  EpochBatches batches;
  batches.options_ = options_;
  batches.epoch_ = epoch;
  batches.num_batches_ = num_batches_;
  batches.num_samples_ = num_samples_;
  if (!options_.shuffle) return batches;
  std::vector<uint64_t>& order = batches.order_;
  order.resize(PlacesOf(options_));
  std::iota(order.begin(), order.end(), 0);
  uint64_t seed = DeriveSeed(DeriveSeed(options_.seed, kShufflePurpose), epoch);
  if (options_.rule == SampleRule::kOwn) seed = DeriveSeed(seed, options_.rank);
  // Fisher-Yates shuffle.
  RandomSequence random(seed);
  for (size_t i = order.size() - 1; i > 0; --i) {
    std::swap(order[i], order[random.Below(i + 1)]);
  }
  return batches;
}

SampledBatch EpochBatches::Batch(uint64_t index) const {
  OARLOCK_CHECK(index < num_batches_);
  const bool shared = options_.rule == SampleRule::kShared;
  const uint64_t places = PlacesOf(options_);
  const uint64_t begin = index * options_.batch_size;
  const uint64_t end = std::min(begin + options_.batch_size, num_samples_);
  // Under kOwn each rank has repeats of its own.
  const uint64_t first_repeat =
      shared ? epoch_ * options_.num_repeats
             : (epoch_ * options_.size + options_.rank) * options_.num_repeats;
  // The batches of all ranks follow each other in the order, even when they are
  // short.
  const uint64_t first =
      shared ? begin * options_.size + options_.rank * (end - begin) : begin;
  SampledBatch batch;
  batch.samples.reserve(end - begin);
  for (uint64_t i = begin; i < end; ++i) {
    const uint64_t position = first + (i - begin);
    if (position < places) ++batch.num_counted;
    const uint64_t at = position % places;
    const uint64_t place = order_.empty() ? at : order_[at];
    batch.samples.push_back(
        {.example = place % options_.num_examples,
         .repeat = first_repeat + place / options_.num_examples});
  }
  return batch;
}

}  // namespace oarlock::data
