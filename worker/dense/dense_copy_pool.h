// What the compute threads of an asynchronous epoch share: dense copies to
// compute with and permits to push.

#ifndef OARLOCK_WORKER_DENSE_DENSE_COPY_POOL_H_
#define OARLOCK_WORKER_DENSE_DENSE_COPY_POOL_H_

#include <cstddef>
#include <cstdint>
#include <memory>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/synchronization/mutex.h"
#include "worker/dense/dense_copy.h"

namespace oarlock::worker {

// Thread-safe. A compute thread acquires a copy, makes a step and pushes with a
// permit while it holds the copy; a permit comes back when its push is
// answered.
//
// Advancing. From BeginAdvance(cut) on, copies below `cut` are given to
// AcquireToAdvance alone, each as soon as the compute thread that holds it
// gives it back; compute threads go on with those that were advanced.
//
// Servers hold pushes that carry an open cut until all copies were advanced to
// it, so such pushes may hold all permits while a compute thread with an older
// copy waits for one. That compute thread gets a permit beyond the limit: at
// most one for each copy and cut.
class DenseCopyPool {
 public:
  DenseCopyPool(std::vector<std::unique_ptr<DenseCopy>> copies,
                int num_permits);

  size_t num_copies() const { return copies_.size(); }

  // Waits for a free copy.
  DenseCopy* Acquire();
  void Release(DenseCopy* copy);

  // REQUIRES: nobody advances copies; all of them are below `cut`.
  void BeginAdvance(uint64_t cut);
  // Waits for a copy below the cut. To be called once for each copy; the caller
  // gives each the new number before it releases it, come what may.
  DenseCopy* AcquireToAdvance();

  // Waits until fewer pushes than permitted are under way, or the caller's copy
  // is to be advanced.
  void AcquirePermit(const DenseCopy& copy);
  void ReleasePermit();
  // Waits until no push is under way.
  void WaitForAllPermits();

 private:
  // Waits for a free copy that is `advanced`, or is not.
  DenseCopy* Take(bool advanced);
  // The one to take next, or free_.end().
  std::vector<DenseCopy*>::iterator FindFree(bool advanced)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);

  const std::vector<std::unique_ptr<DenseCopy>> copies_;
  const int num_permits_;

  absl::Mutex mutex_;
  // The last one is taken first: it is in the cache.
  std::vector<DenseCopy*> free_ ABSL_GUARDED_BY(mutex_);
  uint64_t advance_to_ ABSL_GUARDED_BY(mutex_) = 0;
  // Negative: pushes beyond the limit.
  int permits_ ABSL_GUARDED_BY(mutex_);
};

}  // namespace oarlock::worker

#endif  // OARLOCK_WORKER_DENSE_DENSE_COPY_POOL_H_
