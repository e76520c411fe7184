// Holds the compute threads of a worker back that are too far ahead of the job
// (ssp).

#ifndef OARLOCK_WORKER_EPOCH_STEP_GATE_H_
#define OARLOCK_WORKER_EPOCH_STEP_GATE_H_

#include <cstddef>
#include <cstdint>
#include <set>
#include <thread>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/synchronization/mutex.h"
#include "base/clock.h"
#include "client/job_client.h"

namespace oarlock::worker {

// Thread-safe. A compute thread's step begins here, before it asks for its
// rows, and is finished when its push is answered. What a worker has finished
// is what the slowest of its compute threads has: it tells the coordinator,
// which answers with the least of all workers. That response is kept, so that a
// compute thread asks only when what was last known does not let it go on.
//
// Invariant: when step number s of any compute thread begins (from 0), every
// compute thread of every member has finished its steps up to s - bound - 1, so
// their pushes are in the rows that the step pulls.
class StepGate {
 public:
  // `job` and `clock` outlive this.
  StepGate(client::JobClient* job, size_t num_compute_threads, uint64_t bound,
           const Clock& clock);
  // The coordinator is told nothing more.
  ~StepGate();

  StepGate(const StepGate&) = delete;
  StepGate& operator=(const StepGate&) = delete;

  // Others wait for this worker from now on. All compute threads stand where
  // the slowest member does. Once, before anything else.
  absl::Status Join();
  // Nobody waits for it any more. REQUIRES: all compute threads have left.
  absl::Status Leave();

  // Waits until the compute thread's next step may begin; its number. An error
  // when the coordinator has none to give, Cancelled after Stop.
  absl::StatusOr<uint64_t> Begin(size_t thread);
  // The step's push is answered. Never blocks.
  void Finished(size_t thread, uint64_t step);
  // The compute thread makes no more steps, and waits for none: others of this
  // worker decide how far it is.
  void LeaveThread(size_t thread);

  // Ends all waiting.
  void Stop();

 private:
  struct ComputeThread {
    uint64_t begun = 0;
    // All steps below this are finished, and these.
    uint64_t finished = 0;
    std::set<uint64_t> finished_ahead;
    bool left = false;
  };

  // What the slowest compute thread has finished.
  void UpdateFinished() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  bool MayBegin(const ComputeThread& thread) const
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_) {
    return thread.begun <= bound_ || slowest_ >= thread.begun - bound_;
  }
  // Why nobody may wait any more.
  absl::Status Ended() const ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  // Tells how far this worker is, and learns how far the slowest is; with
  // `waits` when that has changed, or after a while.
  void Report(bool waits) ABSL_LOCKS_EXCLUDED(mutex_);
  // Tells whenever this worker has got further.
  void ReportLoop();

  client::JobClient* const job_;
  const uint64_t bound_;
  const Clock& clock_;

  absl::Mutex mutex_;
  std::vector<ComputeThread> compute_threads_ ABSL_GUARDED_BY(mutex_);
  // What this worker has finished, and what of it the coordinator knows.
  uint64_t finished_ ABSL_GUARDED_BY(mutex_) = 0;
  uint64_t reported_ ABSL_GUARDED_BY(mutex_) = 0;
  // The most that was heard: what was granted stays so.
  uint64_t slowest_ ABSL_GUARDED_BY(mutex_) = 0;
  // One compute thread asks for all.
  bool asking_ ABSL_GUARDED_BY(mutex_) = false;
  bool stopped_ ABSL_GUARDED_BY(mutex_) = false;
  bool closing_ ABSL_GUARDED_BY(mutex_) = false;
  // Of the coordinator's responses.
  absl::Status status_ ABSL_GUARDED_BY(mutex_);
  std::thread reporter_;
};

}  // namespace oarlock::worker

#endif  // OARLOCK_WORKER_EPOCH_STEP_GATE_H_
