// The command of --on_checkpoint, which server 0 runs when a checkpoint has
// become current.

#ifndef OARLOCK_PSERVER_CHECKPOINT_CHECKPOINT_HOOK_H_
#define OARLOCK_PSERVER_CHECKPOINT_CHECKPOINT_HOOK_H_

#include <cstdint>
#include <string>
#include <thread>

#include "absl/base/thread_annotations.h"
#include "absl/status/status.h"
#include "absl/synchronization/mutex.h"
#include "absl/time/time.h"
#include "base/clock.h"
#include "base/metrics.h"

namespace oarlock::pserver {

// One command at a time, in a process group of its own, which ends with this
// object and with this process, by whatever cause. What it writes is not kept,
// but for its last line, which the log has. Thread-safe.
class CheckpointHook {
 public:
  // Of the last line that a command wrote.
  static constexpr size_t kMaxLineBytes = 500;

  // `command`: for /bin/sh -c. One that runs longer than `timeout` is killed.
  // `clock` is monotonic and outlives this.
  CheckpointHook(std::string command, absl::Duration timeout,
                 const Clock& clock);
  // Stops.
  ~CheckpointHook();

  CheckpointHook(const CheckpointHook&) = delete;
  CheckpointHook& operator=(const CheckpointHook&) = delete;

  // The checkpoint in `folder`, "<path>/ckpt-00000042", has become current:
  // runs the command for it, with OARLOCK_CHECKPOINT (the folder),
  // OARLOCK_CHECKPOINT_NAME and OARLOCK_CHECKPOINT_NUMBER in its environment.
  // While one runs, it is next, in place of any that waits. Returns at once.
  void Run(std::string folder);

  // Returns when nothing runs or waits, when the timeout is over, or when
  // another thread calls Stop. Then stops.
  void Finish();
  // Kills what runs; runs nothing any more. Idempotent.
  void Stop();

  // Commands that failed, were killed, or could not be started.
  uint64_t num_failed() const {
    absl::MutexLock lock(&mutex_);
    return num_failed_;
  }
  void CollectMetrics(MetricsSnapshot* snapshot) const;

 private:
  void RunAll();
  void RunOne(const std::string& folder);
  // Until the command has ended, or is killed. `line`: the last one it wrote.
  absl::Status Execute(const std::string& folder, std::string* line);

  const std::string command_;
  const absl::Duration timeout_;
  const Clock& clock_;

  mutable absl::Mutex mutex_;
  // Empty: none waits.
  std::string next_ ABSL_GUARDED_BY(mutex_);
  bool runs_ ABSL_GUARDED_BY(mutex_) = false;
  bool stop_ ABSL_GUARDED_BY(mutex_) = false;
  uint64_t num_failed_ ABSL_GUARDED_BY(mutex_) = 0;
  // Serializes joins.
  absl::Mutex join_mutex_;
  std::thread thread_ ABSL_GUARDED_BY(join_mutex_);
};

// All that CollectMetrics may tell.
MetricList CheckpointHookMetricsList();

}  // namespace oarlock::pserver

#endif  // OARLOCK_PSERVER_CHECKPOINT_CHECKPOINT_HOOK_H_
