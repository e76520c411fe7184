// Work leased from the coordinator, a few ranges at a time.

#ifndef OARLOCK_WORKER_LEASED_WORK_H_
#define OARLOCK_WORKER_LEASED_WORK_H_

#include <deque>
#include <string>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/synchronization/mutex.h"
#include "worker/client/job_client.h"
#include "worker/data/work_source.h"

namespace oarlock {

// Thread-safe: all lanes of a worker share one. Ranges are given to whoever
// asks first, so stragglers, joiners and fewer files than workers are no
// special case.
class LeasedWork : public WorkSource {
 public:
  // `work` names the pass at the coordinator. `job` outlives this.
  LeasedWork(JobClient* job, std::string work)
      : job_(job), work_(std::move(work)) {}

  absl::StatusOr<std::optional<WorkItem>> Next() override;
  // Remembers the lease; its gradients may still be on their way.
  void Done(const WorkItem& item) override;

  // All gradients have been answered: tells the coordinator what is done.
  absl::Status ReportDone();
  // Examples that Next() has given out.
  bool gave_any() const;

 private:
  JobClient* const job_;
  const std::string work_;
  mutable absl::Mutex mutex_;
  bool gave_any_ ABSL_GUARDED_BY(mutex_) = false;
  std::vector<uint64_t> done_ ABSL_GUARDED_BY(mutex_);
};

}  // namespace oarlock

#endif  // OARLOCK_WORKER_LEASED_WORK_H_
