#include "pserver/aggregator/round_merge.h"

#include <algorithm>
#include <bit>
#include <limits>

#include "base/check.h"
#include "base/mix.h"
#include "base/status_macros.h"

namespace oarlock::pserver {
namespace {

// Merged keys that are applied at a time: enough for the table's prefetching
// to run, few enough for their gradients to stay in L2.
constexpr size_t kKeysPerSlice = 2048;

constexpr uint32_t kNone = std::numeric_limits<uint32_t>::max();

void Add(const float* from, size_t n, float* to) {
  for (size_t i = 0; i < n; ++i) to[i] += from[i];
}

void Divide(uint32_t divisor, std::vector<float>* values) {
  if (divisor == 1) return;
  const float by = static_cast<float>(divisor);
  for (float& value : *values) value /= by;
}

}  // namespace

absl::Status SparseRoundMerger::Merge(
    absl::Span<const wire::PushSparseRequestView* const> pushes,
    uint32_t divisor,
    absl::FunctionRef<absl::Status(const sparse_table::SparsePush&)> apply) {
  OARLOCK_CHECK(divisor >= 1);
  cursors_.clear();
  has_shows_ = false;
  has_clicks_ = false;
  for (const wire::PushSparseRequestView* push : pushes) {
    cursors_.push_back({.push = push});
    has_shows_ = has_shows_ || !push->shows.empty();
    has_clicks_ = has_clicks_ || !push->clicks.empty();
  }
  while (true) {
    uint32_t next = kNone;
    size_t num_keys = 0;
    for (const Cursor& cursor : cursors_) {
      if (cursor.group == cursor.push->groups.size()) continue;
      const KeyGroup& group = cursor.push->groups[cursor.group];
      if (group.partition.value() < next) {
        next = group.partition.value();
        num_keys = 0;
      }
      if (group.partition.value() == next) num_keys += group.num_keys;
    }
    if (next == kNone) break;
    const size_t first = keys_.size();
    ClearPlaces(num_keys);
    for (Cursor& cursor : cursors_) {
      if (cursor.group < cursor.push->groups.size() &&
          cursor.push->groups[cursor.group].partition.value() == next) {
        AddGroup(&cursor, first);
      }
    }
    groups_.push_back(
        {.partition = PartitionIndex(next),
         .num_keys = static_cast<uint32_t>(keys_.size() - first)});
    if (keys_.size() >= kKeysPerSlice) {
      OARLOCK_RETURN_IF_ERROR(Flush(divisor, apply));
    }
  }
  return Flush(divisor, apply);
}

void SparseRoundMerger::AddGroup(Cursor* cursor, size_t first) {
  const wire::PushSparseRequestView& push = *cursor->push;
  const size_t n = push.groups[cursor->group].num_keys;
  const Key* keys = push.keys.Elements<Key>(cursor->key, n, &key_scratch_);
  const float* gradients =
      push.values.Elements(cursor->key * dim_, n * dim_, &float_scratch_);
  group_places_.resize(n);
  for (size_t i = 0; i < n; ++i) {
    bool is_new = false;
    group_places_[i] = PlaceOf(keys[i], first, &is_new);
    float* sum = gradients_.data() + group_places_[i] * dim_;
    if (is_new) {
      std::copy_n(gradients + i * dim_, dim_, sum);
    } else {
      Add(gradients + i * dim_, dim_, sum);
    }
  }
  if (!push.shows.empty()) {
    const float* shows =
        push.shows.Elements<float>(cursor->key, n, &float_scratch_);
    for (size_t i = 0; i < n; ++i) shows_[group_places_[i]] += shows[i];
  }
  if (!push.clicks.empty()) {
    const float* clicks =
        push.clicks.Elements<float>(cursor->key, n, &float_scratch_);
    for (size_t i = 0; i < n; ++i) clicks_[group_places_[i]] += clicks[i];
  }
  cursor->key += n;
  ++cursor->group;
}

size_t SparseRoundMerger::PlaceOf(Key key, size_t first, bool* is_new) {
  const size_t mask = places_.size() - 1;
  // The high bits chose the partition and are the same for all keys here.
  size_t entry = Mix(key) & mask;
  while (places_[entry] != 0) {
    const size_t place = first + places_[entry] - 1;
    if (keys_[place] == key) return place;
    entry = (entry + 1) & mask;
  }
  const size_t place = keys_.size();
  places_[entry] = static_cast<uint32_t>(place - first + 1);
  keys_.push_back(key);
  gradients_.resize(gradients_.size() + dim_);
  if (has_shows_) shows_.push_back(0);
  if (has_clicks_) clicks_.push_back(0);
  *is_new = true;
  return place;
}

void SparseRoundMerger::ClearPlaces(size_t num_keys) {
  places_.assign(std::bit_ceil(std::max<size_t>(2 * num_keys, 2)), 0);
}

absl::Status SparseRoundMerger::Flush(
    uint32_t divisor,
    absl::FunctionRef<absl::Status(const sparse_table::SparsePush&)> apply) {
  absl::Status status;
  if (!groups_.empty()) {
    Divide(divisor, &gradients_);
    sparse_table::SparsePush push;
    push.groups = groups_;
    push.keys = keys_.data();
    push.gradients = gradients_.data();
    if (has_shows_) push.shows = shows_.data();
    if (has_clicks_) push.clicks = clicks_.data();
    status = apply(push);
  }
  groups_.clear();
  keys_.clear();
  gradients_.clear();
  shows_.clear();
  clicks_.clear();
  return status;
}

void DenseRoundMerger::Merge(
    absl::Span<const wire::PushDenseRequestView* const> pushes,
    uint32_t divisor, absl::FunctionRef<size_t(BlockIndex)> block_size,
    absl::FunctionRef<void(BlockIndex, const float*)> apply) {
  OARLOCK_CHECK(divisor >= 1);
  cursors_.clear();
  for (const wire::PushDenseRequestView* push : pushes) {
    cursors_.push_back({.push = push});
  }
  while (true) {
    BlockIndex next(kNone);
    for (const Cursor& cursor : cursors_) {
      if (cursor.block == cursor.push->blocks.size()) continue;
      next = std::min(next, cursor.push->blocks[cursor.block]);
    }
    if (next == BlockIndex(kNone)) return;
    const size_t size = block_size(next);
    sum_.clear();
    for (Cursor& cursor : cursors_) {
      if (cursor.block == cursor.push->blocks.size() ||
          cursor.push->blocks[cursor.block] != next) {
        continue;
      }
      const float* gradients =
          cursor.push->values.Elements(cursor.value, size, &scratch_);
      if (sum_.empty()) {
        sum_.assign(gradients, gradients + size);
      } else {
        Add(gradients, size, sum_.data());
      }
      ++cursor.block;
      cursor.value += size;
    }
    Divide(divisor, &sum_);
    apply(next, sum_.data());
  }
}

}  // namespace oarlock::pserver
