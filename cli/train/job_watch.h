// Watches a job from outside and draws its progress on a terminal.

#ifndef OARLOCK_CLI_TRAIN_JOB_WATCH_H_
#define OARLOCK_CLI_TRAIN_JOB_WATCH_H_

#include <atomic>
#include <functional>
#include <string>
#include <thread>

#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "base/clock.h"
#include "proto/v1/coordinator_job.pb.h"

namespace oarlock::cli {

// Asks for the job's state now and then, on a thread of its own, and rewrites
// one line on standard output. Does nothing when that is no terminal.
class JobWatch {
 public:
  using Source = std::function<absl::StatusOr<v1::JobStatusResponse>()>;
  static constexpr absl::Duration kPeriod = absl::Milliseconds(250);

  // A failing source is asked again. `clock` outlives this.
  JobWatch(Source source, int epochs, const Clock& clock);
  // Leaves the last line standing.
  ~JobWatch();

 private:
  void Run(Source source, int epochs);

  const Clock& clock_;
  std::atomic<bool> closing_ = false;
  std::thread thread_;
};

}  // namespace oarlock::cli

#endif  // OARLOCK_CLI_TRAIN_JOB_WATCH_H_
