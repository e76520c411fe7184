// Holds the lanes of a worker back that are too far ahead of the job (ssp).

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

// Thread-safe. A lane's step begins here, before it asks for its rows, and is
// finished when its push is answered. What a worker has finished is what the
// slowest of its lanes has: it tells the coordinator, which answers with the
// least of all workers. That response is kept, so that a lane asks only when
// what was last known does not let it go on.
//
// Invariant: when step number s of any lane begins (from 0), every lane of
// every member has finished its steps up to s - bound - 1, so their pushes are
// in the rows that the step pulls.
class StepGate {
 public:
  // `job` and `clock` outlive this.
  StepGate(client::JobClient* job, size_t num_lanes, uint64_t bound,
           const Clock& clock);
  // The coordinator is told nothing more.
  ~StepGate();

  StepGate(const StepGate&) = delete;
  StepGate& operator=(const StepGate&) = delete;

  // Others wait for this worker from now on. All lanes stand where the slowest
  // member does. Once, before anything else.
  absl::Status Join();
  // Nobody waits for it any more. REQUIRES: all lanes have left.
  absl::Status Leave();

  // Waits until the lane's next step may begin; its number. An error when the
  // coordinator has none to give, Cancelled after Stop.
  absl::StatusOr<uint64_t> Begin(size_t lane);
  // The step's push is answered. Never blocks.
  void Finished(size_t lane, uint64_t step);
  // The lane makes no more steps, and waits for none: others of this worker
  // decide how far it is.
  void LeaveLane(size_t lane);

  // Ends all waiting.
  void Stop();

 private:
  struct Lane {
    uint64_t begun = 0;
    // All steps below this are finished, and these.
    uint64_t finished = 0;
    std::set<uint64_t> finished_ahead;
    bool left = false;
  };

  // What the slowest lane has finished.
  void UpdateFinished() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  bool MayBegin(const Lane& lane) const ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_) {
    return lane.begun <= bound_ || slowest_ >= lane.begun - bound_;
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
  std::vector<Lane> lanes_ ABSL_GUARDED_BY(mutex_);
  // What this worker has finished, and what of it the coordinator knows.
  uint64_t finished_ ABSL_GUARDED_BY(mutex_) = 0;
  uint64_t reported_ ABSL_GUARDED_BY(mutex_) = 0;
  // The most that was heard: what was granted stays so.
  uint64_t slowest_ ABSL_GUARDED_BY(mutex_) = 0;
  // One lane asks for all.
  bool asking_ ABSL_GUARDED_BY(mutex_) = false;
  bool stopped_ ABSL_GUARDED_BY(mutex_) = false;
  bool closing_ ABSL_GUARDED_BY(mutex_) = false;
  // Of the coordinator's responses.
  absl::Status status_ ABSL_GUARDED_BY(mutex_);
  std::thread reporter_;
};

}  // namespace oarlock::worker

#endif  // OARLOCK_WORKER_EPOCH_STEP_GATE_H_
