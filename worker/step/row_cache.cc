#include "worker/step/row_cache.h"

#include <algorithm>

#include "base/check.h"
#include "nn/math_backend.h"

namespace oarlock::worker {

RowCache::RowCache(size_t cache_rows, uint64_t max_steps)
    : max_steps_(max_steps),
      key_of_entry_(cache_rows),
      pulled_step_(cache_rows, 0),
      used_step_(cache_rows, 0),
      used_since_hand_(cache_rows, false) {
  OARLOCK_CHECK(cache_rows > 0 && cache_rows < nn::CachedRows::kNone);
  entry_of_key_.reserve(cache_rows);
}

void RowCache::Plan(absl::Span<const Key> keys, RowPlan* plan) {
  plan->step = plan->oldest_step = ++step_;
  plan->missed_keys.clear();
  plan->miss_of_row.assign(keys.size(), nn::CachedRows::kNone);
  plan->entry_of_row.assign(keys.size(), nn::CachedRows::kNone);
  is_full_ = false;
  // First those that have an entry, so that none of them loses it to another
  // key of the batch.
  for (size_t row = 0; row < keys.size(); ++row) {
    const auto found = entry_of_key_.find(keys[row]);
    if (found == entry_of_key_.end()) continue;
    const uint32_t entry = found->second;
    plan->entry_of_row[row] = entry;
    used_step_[entry] = step_;
    used_since_hand_[entry] = true;
    if (step_ - pulled_step_[entry] <= max_steps_) {
      plan->oldest_step = std::min(plan->oldest_step, pulled_step_[entry]);
    } else {
      pulled_step_[entry] = step_;
    }
  }
  for (size_t row = 0; row < keys.size(); ++row) {
    uint32_t& entry = plan->entry_of_row[row];
    if (entry != nn::CachedRows::kNone && pulled_step_[entry] != step_)
      continue;
    plan->miss_of_row[row] = static_cast<uint32_t>(plan->missed_keys.size());
    plan->missed_keys.push_back(keys[row]);
    if (entry != nn::CachedRows::kNone) continue;
    entry = TakeEntry();
    if (entry == nn::CachedRows::kNone) continue;
    entry_of_key_[keys[row]] = entry;
    key_of_entry_[entry] = keys[row];
    pulled_step_[entry] = used_step_[entry] = step_;
  }
}

uint32_t RowCache::TakeEntry() {
  if (is_full_) return nn::CachedRows::kNone;
  // Once round to forget uses, once more to find an entry.
  for (size_t i = 0; i < 2 * cache_rows(); ++i) {
    const auto entry = static_cast<uint32_t>(hand_);
    hand_ = hand_ + 1 == cache_rows() ? 0 : hand_ + 1;
    if (used_step_[entry] == step_) continue;
    if (used_since_hand_[entry]) {
      used_since_hand_[entry] = false;
      continue;
    }
    if (pulled_step_[entry] != 0) entry_of_key_.erase(key_of_entry_[entry]);
    return entry;
  }
  is_full_ = true;
  return nn::CachedRows::kNone;
}

void PulledVersions::Record(uint64_t step, uint64_t oldest_step,
                            client::TableVersions* versions) {
  while (!pulls_.empty() && pulls_.front().first + max_steps_ < step) {
    pulls_.pop_front();
  }
  pulls_.emplace_back(step, *versions);
  // A pull that did not reach a server says nothing of it.
  for (auto pull = pulls_.rbegin();
       pull != pulls_.rend() && pull->first >= oldest_step; ++pull) {
    versions->resize(std::max(versions->size(), pull->second.size()), 0);
    for (size_t s = 0; s < pull->second.size(); ++s) {
      if (pull->second[s] != 0) (*versions)[s] = pull->second[s];
    }
  }
}

}  // namespace oarlock::worker
