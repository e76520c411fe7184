#include "worker/step/row_cache.h"

#include <algorithm>

#include "base/check.h"
#include "nn/math_backend.h"

namespace oarlock::worker {

RowCache::RowCache(size_t num_slots, uint64_t max_steps)
    : max_steps_(max_steps),
      key_of_slot_(num_slots),
      pulled_step_(num_slots, 0),
      used_step_(num_slots, 0),
      used_since_hand_(num_slots, false) {
  OARLOCK_CHECK(num_slots > 0 && num_slots < nn::CachedRows::kNone);
  slot_of_key_.reserve(num_slots);
}

void RowCache::Plan(absl::Span<const Key> keys, RowPlan* plan) {
  plan->step = plan->oldest_step = ++step_;
  plan->missed_keys.clear();
  plan->miss_of_row.assign(keys.size(), nn::CachedRows::kNone);
  plan->slot_of_row.assign(keys.size(), nn::CachedRows::kNone);
  is_full_ = false;
  // First those that have a slot, so that none of them loses it to another key
  // of the batch.
  for (size_t row = 0; row < keys.size(); ++row) {
    const auto found = slot_of_key_.find(keys[row]);
    if (found == slot_of_key_.end()) continue;
    const uint32_t slot = found->second;
    plan->slot_of_row[row] = slot;
    used_step_[slot] = step_;
    used_since_hand_[slot] = true;
    if (step_ - pulled_step_[slot] <= max_steps_) {
      plan->oldest_step = std::min(plan->oldest_step, pulled_step_[slot]);
    } else {
      pulled_step_[slot] = step_;
    }
  }
  for (size_t row = 0; row < keys.size(); ++row) {
    uint32_t& slot = plan->slot_of_row[row];
    if (slot != nn::CachedRows::kNone && pulled_step_[slot] != step_) continue;
    plan->miss_of_row[row] = static_cast<uint32_t>(plan->missed_keys.size());
    plan->missed_keys.push_back(keys[row]);
    if (slot != nn::CachedRows::kNone) continue;
    slot = TakeSlot();
    if (slot == nn::CachedRows::kNone) continue;
    slot_of_key_[keys[row]] = slot;
    key_of_slot_[slot] = keys[row];
    pulled_step_[slot] = used_step_[slot] = step_;
  }
}

uint32_t RowCache::TakeSlot() {
  if (is_full_) return nn::CachedRows::kNone;
  // Once round to forget uses, once more to find a slot.
  for (size_t i = 0; i < 2 * num_slots(); ++i) {
    const auto slot = static_cast<uint32_t>(hand_);
    hand_ = hand_ + 1 == num_slots() ? 0 : hand_ + 1;
    if (used_step_[slot] == step_) continue;
    if (used_since_hand_[slot]) {
      used_since_hand_[slot] = false;
      continue;
    }
    if (pulled_step_[slot] != 0) slot_of_key_.erase(key_of_slot_[slot]);
    return slot;
  }
  is_full_ = true;
  return nn::CachedRows::kNone;
}

void PulledVersions::Note(uint64_t step, uint64_t oldest_step,
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
