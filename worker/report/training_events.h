// The progress of a job as curves for TensorBoard.

#ifndef OARLOCK_WORKER_REPORT_TRAINING_EVENTS_H_
#define OARLOCK_WORKER_REPORT_TRAINING_EVENTS_H_

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/synchronization/mutex.h"
#include "absl/time/time.h"
#include "base/clock.h"
#include "proto/v1/coordinator_job.pb.h"
#include "worker/report/event_file.h"

namespace oarlock::worker {

// Turns successive states of a job into points; docs/evaluation.md lists the
// tags. The step of a point is the job's steps of training. Not thread-safe.
class TrainingCurves {
 public:
  struct Point {
    int64_t step = 0;
    absl::Time time;
    EventFile::Scalars scalars;
  };

  // `first`: points of evaluations that it has are left out; they stand in an
  // earlier file.
  explicit TrainingCurves(const v1::JobStatusResponse& first);

  // Points of training since the last call, if any example was trained, and of
  // evaluations that were concluded since.
  std::vector<Point> Update(const v1::JobStatusResponse& status,
                            absl::Time now);

 private:
  struct Mark {
    uint64_t examples = 0;
    uint64_t steps = 0;
    double loss_sum = 0;
    std::vector<uint64_t> staleness;
    absl::Time time;
  };
  static Mark MarkOf(const v1::JobStatusResponse& status, absl::Time now);

  std::optional<Mark> mark_;
  // By phase name and time: after a resume an epoch may be evaluated once more.
  std::set<std::pair<std::string, double>> evaluations_;
};

// Writes them to a file in a folder, on a thread of its own that asks for the
// job's state every `period`; by one worker of a job. Failures are one warning:
// curves are no reason to end a job.
class TrainingEvents {
 public:
  using Source = std::function<absl::StatusOr<v1::JobStatusResponse>()>;

  // Unavailable when the folder cannot be written. `source` is called until
  // Finish, from that thread. Points lie at times of the wall clock. The clocks
  // outlive this.
  static absl::StatusOr<std::unique_ptr<TrainingEvents>> Start(
      const std::string& folder, absl::Duration period, Source source,
      const Clocks& clocks);
  ~TrainingEvents();

  // Writes the last points, of this state, and ends the thread.
  void Finish(const v1::JobStatusResponse& last);

 private:
  TrainingEvents(std::unique_ptr<EventFile> file, absl::Duration period,
                 Source source, const Clocks& clocks,
                 const v1::JobStatusResponse& first);
  void Run();
  void EndThread();
  absl::Status Write(const v1::JobStatusResponse& status);

  const absl::Duration period_;
  const Source source_;
  const Clocks clocks_;
  // Of the thread, and of Finish when that has ended.
  const std::unique_ptr<EventFile> file_;
  TrainingCurves curves_;

  absl::Mutex mutex_;
  bool stopping_ ABSL_GUARDED_BY(mutex_) = false;
  std::thread thread_;
};

}  // namespace oarlock::worker

#endif  // OARLOCK_WORKER_REPORT_TRAINING_EVENTS_H_
