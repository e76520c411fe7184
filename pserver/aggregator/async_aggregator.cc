#include "pserver/aggregator/async_aggregator.h"

#include <algorithm>
#include <utility>
#include <vector>

#include "absl/types/span.h"
#include "base/check.h"
#include "pserver/aggregator/push_stamp_of.h"

namespace oarlock::pserver {
namespace {

// Keys that are brought into cache and applied at a time: enough for the
// table's prefetching to run, few enough for their gradients to stay in L2.
constexpr size_t kKeysPerSlice = 2048;

absl::Status ShutDownError() {
  return absl::UnavailableError(
      "the server is shutting down; the push was not applied; send it again "
      "to the server's successor");
}

}  // namespace

void AsyncAggregator::PushSparse(wire::PushSparseRequestView push,
                                 PushDone done) {
  OARLOCK_CHECK(sparse_ != nullptr);
  if (shut_down_.load(std::memory_order_relaxed)) {
    done(ShutDownError());
    return;
  }
  done(ApplySparse(push));
}

void AsyncAggregator::PushDense(wire::PushDenseRequestView push,
                                PushDone done) {
  OARLOCK_CHECK(dense_ != nullptr);
  if (shut_down_.load(std::memory_order_relaxed)) {
    done(ShutDownError());
    return;
  }
  done(ApplyDense(push));
}

absl::StatusOr<PushOutcome> AsyncAggregator::ApplySparse(
    const wire::PushSparseRequestView& push) {
  // Kept by the thread, so that a push allocates nothing.
  thread_local std::vector<Key> key_scratch;
  thread_local std::vector<float> gradient_scratch;
  thread_local std::vector<float> show_scratch;
  thread_local std::vector<float> click_scratch;

  const size_t dim = sparse_->config().sparse().dim();
  const PushStamp stamp = StampOf(push.header);
  const absl::Span<const KeyGroup> groups = push.groups;
  const uint32_t now = clock_ == nullptr ? 0 : clock_->Now();
  const uint32_t logical_time = push.logical_time.value_or(now);
  PushOutcome outcome;
  size_t first_key = 0;
  for (size_t first = 0; first < groups.size();) {
    size_t end = first;
    size_t num_keys = 0;
    while (end < groups.size() && num_keys < kKeysPerSlice) {
      num_keys += groups[end++].num_keys;
    }
    sparse_table::SparsePush slice;
    slice.groups = groups.subspan(first, end - first);
    slice.keys = push.keys.Elements<Key>(first_key, num_keys, &key_scratch);
    slice.gradients = push.values.Elements(first_key * dim, num_keys * dim,
                                           &gradient_scratch);
    if (!push.shows.empty()) {
      slice.shows =
          push.shows.Elements<float>(first_key, num_keys, &show_scratch);
    }
    if (!push.clicks.empty()) {
      slice.clicks =
          push.clicks.Elements<float>(first_key, num_keys, &click_scratch);
    }
    slice.stamps = absl::MakeConstSpan(&stamp, 1);
    slice.logical_time = logical_time;
    absl::StatusOr<sparse_table::SparsePushResult> result =
        sparse_->Push(slice);
    if (!result.ok()) return result.status();
    outcome.duplicate_groups += result->duplicate_groups;
    first = end;
    first_key += num_keys;
  }
  if (outcome.duplicate_groups < groups.size()) CountPush(stamp);
  return outcome;
}

absl::StatusOr<PushOutcome> AsyncAggregator::ApplyDense(
    const wire::PushDenseRequestView& push) {
  thread_local std::vector<float> gradient_scratch;

  const PushStamp stamp = StampOf(push.header);
  PushOutcome outcome;
  size_t begin = 0;
  for (size_t i = 0; i < push.blocks.size(); ++i) {
    const BlockIndex block = push.blocks[i];
    const size_t size = dense_->BlockSize(block);
    const float* gradients =
        push.values.Elements(begin, size, &gradient_scratch);
    // A push without a number of steps is of one step.
    if (!dense_->Push(
            block, gradients, absl::MakeConstSpan(&stamp, 1),
            std::max(1u, push.num_steps),
            push.known_versions.empty() ? 0 : push.known_versions[i])) {
      ++outcome.duplicate_groups;
    }
    begin += size;
  }
  if (outcome.duplicate_groups < push.blocks.size()) CountPush(stamp);
  return outcome;
}

void AsyncAggregator::CountPush(const PushStamp& stamp) {
  absl::MutexLock lock(&counted_mutex_);
  if (counted_.Contains(stamp)) return;
  counted_.Add(stamp);
  version_.fetch_add(1, std::memory_order_relaxed);
}

}  // namespace oarlock::pserver
