// Work that a worker splits by itself, and stops with the job.

#ifndef OARLOCK_WORKER_INPUT_STOPPABLE_WORK_H_
#define OARLOCK_WORKER_INPUT_STOPPABLE_WORK_H_

#include <optional>

#include "absl/status/statusor.h"
#include "client/job_client.h"
#include "data/work_source.h"

namespace oarlock::worker {

// The items of `work` until training is stopped (JobClient::StopTraining), as
// far as this worker has heard; leased work is stopped by the coordinator
// itself. Thread-safe.
class StoppableWork : public data::WorkSource {
 public:
  // Both outlive this.
  StoppableWork(const client::JobClient* job, data::WorkSource* work)
      : job_(*job), work_(*work) {}

  absl::StatusOr<std::optional<data::WorkItem>> Next() override {
    if (job_.training_stopped()) return std::nullopt;
    return work_.Next();
  }
  void Done(const data::WorkItem& item) override { work_.Done(item); }

 private:
  const client::JobClient& job_;
  data::WorkSource& work_;
};

}  // namespace oarlock::worker

#endif  // OARLOCK_WORKER_INPUT_STOPPABLE_WORK_H_
