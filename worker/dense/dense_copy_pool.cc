#include "worker/dense/dense_copy_pool.h"

#include <utility>

namespace oarlock::worker {

DenseCopyPool::DenseCopyPool(std::vector<std::unique_ptr<DenseCopy>> copies,
                             int num_permits)
    : copies_(std::move(copies)),
      num_permits_(num_permits),
      permits_(num_permits) {
  for (const std::unique_ptr<DenseCopy>& copy : copies_) {
    free_.push_back(copy.get());
  }
}

DenseCopy* DenseCopyPool::Acquire() { return Take(/*advanced=*/true); }

DenseCopy* DenseCopyPool::AcquireToAdvance() {
  return Take(/*advanced=*/false);
}

DenseCopy* DenseCopyPool::Take(bool advanced) {
  absl::MutexLock lock(&mutex_);
  const auto is_free = [&]() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_) {
    return FindFree(advanced) != free_.end();
  };
  mutex_.Await(absl::Condition(&is_free));
  const auto found = FindFree(advanced);
  DenseCopy* const copy = *found;
  free_.erase(found);
  return copy;
}

std::vector<DenseCopy*>::iterator DenseCopyPool::FindFree(bool advanced) {
  for (auto it = free_.end(); it != free_.begin();) {
    --it;
    if (((*it)->cut() >= advance_to_) == advanced) return it;
  }
  return free_.end();
}

void DenseCopyPool::Release(DenseCopy* copy) {
  absl::MutexLock lock(&mutex_);
  free_.push_back(copy);
}

void DenseCopyPool::BeginAdvance(uint64_t cut) {
  absl::MutexLock lock(&mutex_);
  advance_to_ = cut;
}

void DenseCopyPool::AcquirePermit(const DenseCopy& copy) {
  absl::MutexLock lock(&mutex_);
  const auto may_push = [&]() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_) {
    return permits_ > 0 || copy.cut() < advance_to_;
  };
  mutex_.Await(absl::Condition(&may_push));
  --permits_;
}

void DenseCopyPool::ReleasePermit() {
  absl::MutexLock lock(&mutex_);
  ++permits_;
}

void DenseCopyPool::WaitForAllPermits() {
  absl::MutexLock lock(&mutex_);
  const auto all = [&]() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_) {
    return permits_ == num_permits_;
  };
  mutex_.Await(absl::Condition(&all));
}

}  // namespace oarlock::worker
