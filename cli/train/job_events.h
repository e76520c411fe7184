// Tells a program how a job goes on, and takes what the program wants of it.
//
// A line on standard output is one object of JSON:
//
//   {"progress": "epoch 1/3  63 %  ..."}   when it has changed
//   {"evaluation": {...}}                  each once, as summary.json has it
//   {"answer": "drain", "error": ""}       to a line of standard input
//   {"checkpoint_dir": "..."}              in the end, of servers that stay
//
// A line of standard input is "stop REASON" (training ends; evaluation,
// checkpoint and summary follow) or "drain REASON" (a checkpoint, then the job
// ends). What is concluded after the last look stands in summary.json.

#ifndef OARLOCK_CLI_TRAIN_JOB_EVENTS_H_
#define OARLOCK_CLI_TRAIN_JOB_EVENTS_H_

#include <functional>
#include <set>
#include <string>
#include <thread>
#include <utility>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/time/time.h"
#include "base/clock.h"
#include "fleet/role/progress_line.h"
#include "proto/v1/coordinator_job.pb.h"

namespace oarlock::cli {

class JobEvents {
 public:
  // From one look to the next.
  static constexpr absl::Duration kPeriod = absl::Milliseconds(500);
  // A longer line of standard input is refused.
  static constexpr size_t kMaxLineBytes = 4096;

  // What a job can be asked, by one thread at a time.
  struct Job {
    std::function<absl::StatusOr<v1::JobStatusResponse>()> status;
    std::function<absl::Status(const std::string& reason)> stop;
    std::function<absl::Status(const std::string& reason)> drain;
  };

  // Starts a thread that uses `job` until this is destroyed. A failing status
  // is asked for again. Evaluations that ended before now are another job's, or
  // of the time before a resume. The clocks outlive this.
  JobEvents(Job job, int epochs, const Clocks& clocks);
  ~JobEvents();

  // At the end: where servers that stay keep checkpoints.
  static void TellCheckpointDir(const std::string& folder);

 private:
  void Run();
  void Look();
  // Reads what is there; false: there will be no more.
  bool ReadInput();
  void Obey(absl::string_view line);

  const Job job_;
  const Clocks clocks_;
  const double begin_unix_seconds_;
  ProgressLine line_;
  std::string last_line_;
  // Work and time of those that were told.
  std::set<std::pair<std::string, double>> told_;
  std::string input_;
  // Readable: the thread ends.
  int stop_event_ = -1;
  std::thread thread_;
};

}  // namespace oarlock::cli

#endif  // OARLOCK_CLI_TRAIN_JOB_EVENTS_H_
