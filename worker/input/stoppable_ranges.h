// Ranges that a worker splits by itself, until the job is stopped.

#ifndef OARLOCK_WORKER_INPUT_STOPPABLE_RANGES_H_
#define OARLOCK_WORKER_INPUT_STOPPABLE_RANGES_H_

#include <optional>

#include "absl/status/statusor.h"
#include "client/job_client.h"
#include "data/range_source.h"

namespace oarlock::worker {

// The items of `ranges` until training is stopped (JobClient::StopTraining), as
// far as this worker has heard; leased ranges are stopped by the coordinator
// itself. Thread-safe.
class StoppableRanges : public data::RangeSource {
 public:
  // Both outlive this.
  StoppableRanges(const client::JobClient* job, data::RangeSource* ranges)
      : job_(*job), ranges_(*ranges) {}

  absl::StatusOr<std::optional<data::DataRange>> Next() override {
    if (job_.training_stopped()) return std::nullopt;
    return ranges_.Next();
  }
  void Done(const data::DataRange& item) override { ranges_.Done(item); }

 private:
  const client::JobClient& job_;
  data::RangeSource& ranges_;
};

}  // namespace oarlock::worker

#endif  // OARLOCK_WORKER_INPUT_STOPPABLE_RANGES_H_
