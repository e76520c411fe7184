// Work that a worker splits by itself, and stops with the job.

#ifndef OARLOCK_WORKER_INPUT_STOPPABLE_WORK_H_
#define OARLOCK_WORKER_INPUT_STOPPABLE_WORK_H_

#include <optional>

#include "absl/status/statusor.h"
#include "client/job_client.h"
#include "data/work_source.h"

namespace oarlock {

// The items of `work` until training is stopped (JobClient::StopTraining), as
// far as this worker has heard; leased work is stopped by the coordinator
// itself. Thread-safe.
class StoppableWork : public WorkSource {
 public:
  // Both outlive this.
  StoppableWork(const JobClient* job, WorkSource* work)
      : job_(*job), work_(*work) {}

  absl::StatusOr<std::optional<WorkItem>> Next() override {
    if (job_.training_stopped()) return std::nullopt;
    return work_.Next();
  }
  void Done(const WorkItem& item) override { work_.Done(item); }

 private:
  const JobClient& job_;
  WorkSource& work_;
};

}  // namespace oarlock

#endif  // OARLOCK_WORKER_INPUT_STOPPABLE_WORK_H_
