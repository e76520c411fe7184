#include "worker/geo/geo_rows.h"

#include <algorithm>

#include "base/check.h"

namespace oarlock::worker {

GeoRows::GeoRows(const optim::UpdateRule& rule, size_t dim, int partition_bits)
    : rule_(rule),
      dim_(dim),
      stride_(2 * dim + rule.StateSize(dim) + 2),
      partition_bits_(partition_bits),
      steps_(size_t{1} << partition_bits) {}

void GeoRows::Find(absl::Span<const Key> keys, std::vector<uint32_t>* rows,
                   std::vector<Key>* missing) {
  rows->clear();
  for (const Key key : keys) {
    const auto next = static_cast<uint32_t>(keys_.size());
    const auto [found, is_new] = row_of_key_.try_emplace(key, next);
    rows->push_back(found->second);
    if (!is_new) continue;
    if (next / kChunkRows == chunks_.size()) {
      chunks_.push_back(std::make_unique<float[]>(kChunkRows * stride_));
    }
    keys_.push_back(key);
    last_touch_.push_back(0);
    std::fill_n(Row(next), stride_, 0.0f);
    rule_.InitState(State(next), dim_);
    missing->push_back(key);
  }
}

void GeoRows::FindKept(absl::Span<const Key> keys,
                       std::vector<Key>* kept) const {
  for (const Key key : keys) {
    if (row_of_key_.contains(key)) kept->push_back(key);
  }
}

void GeoRows::Install(absl::Span<const Key> keys, const float* values) {
  for (size_t i = 0; i < keys.size(); ++i) {
    const uint32_t row = row_of_key_.at(keys[i]);
    float* const weights = Weights(row);
    float* const base = Base(row);
    const float* const value = values + i * dim_;
    const bool changed = last_touch_[row] == exchange_;
    for (size_t d = 0; d < dim_; ++d) {
      weights[d] = changed ? value[d] + (weights[d] - base[d]) : value[d];
      base[d] = value[d];
    }
  }
}

void GeoRows::Gather(absl::Span<const uint32_t> rows, float* values) const {
  for (const uint32_t row : rows) {
    values = std::copy_n(Weights(row), dim_, values);
  }
}

void GeoRows::Touch(uint32_t row) {
  if (last_touch_[row] == exchange_) return;
  last_touch_[row] = exchange_;
  touched_.push_back(row);
}

void GeoRows::Apply(const client::KeyBatch& keys,
                    absl::Span<const uint32_t> rows, const float* gradients) {
  OARLOCK_CHECK(rows.size() == keys.keys().size());
  for (const uint32_t row : rows) Touch(row);
  rule_.Visit([&](const auto& base) {
    size_t i = 0;
    for (const KeyGroup& group : keys.groups()) {
      const auto rule = rule_.ForStep(base, ++steps_[group.partition.value()]);
      for (const size_t end = i + group.num_keys; i < end; ++i) {
        rule.Apply(Weights(rows[i]), State(rows[i]), gradients + i * dim_,
                   dim_);
      }
    }
  });
}

void GeoRows::Count(absl::Span<const uint32_t> rows, const float* shows,
                    const float* clicks) {
  for (size_t i = 0; i < rows.size(); ++i) {
    float* const counts = Counts(rows[i]);
    counts[0] += shows[i];
    counts[1] += clicks[i];
  }
}

void GeoRows::TakeChanges(bool statistics, GeoChanges* changes) {
  touched_keys_.clear();
  for (const uint32_t row : touched_) touched_keys_.push_back(keys_[row]);
  changes->keys.Build(touched_keys_, partition_bits_);
  changes->differences.resize(touched_.size() * dim_);
  changes->shows.resize(statistics ? touched_.size() : 0);
  changes->clicks.resize(statistics ? touched_.size() : 0);
  for (size_t i = 0; i < touched_.size(); ++i) {
    const size_t place = changes->keys.row_of_key()[i];
    float* const weights = Weights(touched_[i]);
    float* const base = Base(touched_[i]);
    float* const difference = changes->differences.data() + place * dim_;
    for (size_t d = 0; d < dim_; ++d) {
      difference[d] = base[d] - weights[d];
      weights[d] = base[d] = base[d] - difference[d];
    }
    if (!statistics) continue;
    float* const counts = Counts(touched_[i]);
    changes->shows[place] = counts[0];
    changes->clicks[place] = counts[1];
    counts[0] = counts[1] = 0;
  }
  touched_.clear();
  ++exchange_;
}

void GeoRows::Shrink(size_t rows_max) {
  OARLOCK_CHECK(touched_.empty());
  if (keys_.size() <= rows_max) return;
  // exchange_ has not begun; the last one was exchange_ - 1.
  uint32_t kept = 0;
  for (uint32_t row = 0; row < keys_.size(); ++row) {
    const bool stays = last_touch_[row] + 2 >= exchange_ ||
                       keys_.size() - (row - kept) <= rows_max;
    if (!stays) {
      row_of_key_.erase(keys_[row]);
      continue;
    }
    if (kept != row) {
      std::copy_n(Row(row), stride_, Row(kept));
      keys_[kept] = keys_[row];
      last_touch_[kept] = last_touch_[row];
      row_of_key_[keys_[row]] = kept;
    }
    ++kept;
  }
  keys_.resize(kept);
  last_touch_.resize(kept);
  chunks_.resize((kept + kChunkRows - 1) / kChunkRows);
}

}  // namespace oarlock::worker
