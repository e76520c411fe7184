#include "worker/dense/slot_pool.h"

#include <utility>

namespace oarlock::worker {

SlotPool::SlotPool(std::vector<std::unique_ptr<DenseSlot>> slots,
                   int num_permits)
    : slots_(std::move(slots)),
      num_permits_(num_permits),
      permits_(num_permits) {
  for (const std::unique_ptr<DenseSlot>& slot : slots_) {
    free_.push_back(slot.get());
  }
}

DenseSlot* SlotPool::Acquire() { return Take(/*raised=*/true); }

DenseSlot* SlotPool::AcquireToRaise() { return Take(/*raised=*/false); }

DenseSlot* SlotPool::Take(bool raised) {
  absl::MutexLock lock(&mutex_);
  const auto is_free = [&]() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_) {
    return FindFree(raised) != free_.end();
  };
  mutex_.Await(absl::Condition(&is_free));
  const auto found = FindFree(raised);
  DenseSlot* const slot = *found;
  free_.erase(found);
  return slot;
}

std::vector<DenseSlot*>::iterator SlotPool::FindFree(bool raised) {
  for (auto it = free_.end(); it != free_.begin();) {
    --it;
    if (((*it)->cut() >= raise_to_) == raised) return it;
  }
  return free_.end();
}

void SlotPool::Release(DenseSlot* slot) {
  absl::MutexLock lock(&mutex_);
  free_.push_back(slot);
}

void SlotPool::BeginRaise(uint64_t cut) {
  absl::MutexLock lock(&mutex_);
  raise_to_ = cut;
}

void SlotPool::AcquirePermit(const DenseSlot& slot) {
  absl::MutexLock lock(&mutex_);
  const auto may_push = [&]() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_) {
    return permits_ > 0 || slot.cut() < raise_to_;
  };
  mutex_.Await(absl::Condition(&may_push));
  --permits_;
}

void SlotPool::ReleasePermit() {
  absl::MutexLock lock(&mutex_);
  ++permits_;
}

void SlotPool::WaitForAllPermits() {
  absl::MutexLock lock(&mutex_);
  const auto all = [&]() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_) {
    return permits_ == num_permits_;
  };
  mutex_.Await(absl::Condition(&all));
}

}  // namespace oarlock::worker
