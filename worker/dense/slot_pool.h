// What the lanes of an asynchronous pass share: dense slots to compute with and
// permits to push.

#ifndef OARLOCK_WORKER_DENSE_SLOT_POOL_H_
#define OARLOCK_WORKER_DENSE_SLOT_POOL_H_

#include <cstddef>
#include <cstdint>
#include <memory>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/synchronization/mutex.h"
#include "worker/dense/dense_slot.h"

namespace oarlock::worker {

// Thread-safe. A lane acquires a slot, makes a step and pushes with a permit
// while it holds the slot; a permit comes back when its push is answered.
//
// Raising. From BeginRaise(cut) on, slots below `cut` are given to
// AcquireToRaise alone, each as soon as the lane that holds it gives it back;
// lanes go on with those that were raised.
//
// Servers hold pushes that carry an open cut until all slots were raised to it,
// so such pushes may hold all permits while a lane with an older slot waits for
// one. That lane gets a permit beyond the limit: at most one for each slot and
// cut.
class SlotPool {
 public:
  SlotPool(std::vector<std::unique_ptr<DenseSlot>> slots, int num_permits);

  size_t num_slots() const { return slots_.size(); }

  // Waits for a free slot.
  DenseSlot* Acquire();
  void Release(DenseSlot* slot);

  // REQUIRES: nobody raises; all slots are below `cut`.
  void BeginRaise(uint64_t cut);
  // Waits for a slot below the cut. To be called once for each slot; the caller
  // gives each the new number before it releases it, come what may.
  DenseSlot* AcquireToRaise();

  // Waits until fewer pushes than permitted are under way, or the caller's slot
  // is to be raised.
  void AcquirePermit(const DenseSlot& slot);
  void ReleasePermit();
  // Waits until no push is under way.
  void WaitForAllPermits();

 private:
  // Waits for a free slot that is `raised`, or is not.
  DenseSlot* Take(bool raised);
  // The one to take next, or free_.end().
  std::vector<DenseSlot*>::iterator FindFree(bool raised)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);

  const std::vector<std::unique_ptr<DenseSlot>> slots_;
  const int num_permits_;

  absl::Mutex mutex_;
  // The last one is taken first: it is in the cache.
  std::vector<DenseSlot*> free_ ABSL_GUARDED_BY(mutex_);
  uint64_t raise_to_ ABSL_GUARDED_BY(mutex_) = 0;
  // Negative: pushes beyond the limit.
  int permits_ ABSL_GUARDED_BY(mutex_);
};

}  // namespace oarlock::worker

#endif  // OARLOCK_WORKER_DENSE_SLOT_POOL_H_
