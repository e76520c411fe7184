// The coordinator's log on disk (durability `log`) and its replay. The log
// holds the calls, with the times at which they were done, and now and then the
// whole state (docs/push_log_format.md).
//
// What a caller was answered is in the log as long as the system runs: the
// system has a call before it is done and answered. After a loss of power the
// end of the log may be missing, and workers and servers may be ahead of it. So
// a log is valid only for the boot of the system under which it was written.

#ifndef OARLOCK_COORDINATOR_LOG_COORDINATOR_LOG_H_
#define OARLOCK_COORDINATOR_LOG_COORDINATOR_LOG_H_

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "base/clock.h"
#include "coordinator/call_log.h"
#include "coordinator/coordinator.h"
#include "coordinator/log/log_compatibility.h"
#include "storage/file_system.h"
#include "storage/push_log.h"

namespace oarlock::coordinator {

struct CoordinatorLogOptions {
  // A directory of its own.
  std::string directory;
  // Replay what the log has, or drop it.
  bool replay = false;
  // What is replayed may be of a job with another number of workers.
  bool any_num_workers = false;
  // Gets each call before it is done; outlives the log. Null: not used.
  RunFile* run_file = nullptr;
  // See BootId.
  std::string boot_id;
  // A state is written when the calls since the last one take this many bytes
  // and four times as many as that state.
  uint64_t calls_bytes_max = uint64_t{16} << 20;
  // A state is split into records of this size. 1 to kMaxLogRecordBytes.
  size_t record_bytes = size_t{32} << 20;
};

// Kinds of records. The numbers are on disk and never change. A log of pushes
// has other ones.
enum class CoordinatorRecord : uint32_t {
  // A CoordinatorCall.
  kCall = 16,
  // Bytes of a CoordinatorSnapshot: every part but the last, and the last part.
  kStatePart = 17,
  kStateEnd = 18,
};

// Thread-safe as CallLog says.
class CoordinatorLog : public CallLog {
 public:
  // Drops what there is, or replays it on `coordinator`, to which nothing has
  // happened yet. FailedPrecondition for the log of another boot; DataLoss,
  // naming the file, for a damaged log or one of a job with another shape;
  // errors of the disk. The coordinator writes to the log only after SetLog. If
  // something was replayed, call ResumeRun or BeginRun before SetLog. `clock`
  // is monotonic; what is given outlives the log.
  static absl::StatusOr<std::unique_ptr<CoordinatorLog>> Open(
      const CoordinatorLogOptions& options, storage::FileSystem* files,
      Coordinator* coordinator, const Clock& clock);

  // Whether the coordinator has taken a state over. A log without a whole state
  // is from a coordinator that never answered a call.
  bool replayed() const { return replayed_; }

  absl::Status Append(const v1::CoordinatorCall& call) override;
  absl::Status AppendState(v1::CoordinatorState state) override;
  absl::Status BeginState() override { return log_->Roll(); }
  absl::Status EndState() override;
  bool WantsState() const override { return log_->bytes() > state_due_at_; }

 private:
  CoordinatorLog(const CoordinatorLogOptions& options, Coordinator* coordinator)
      : options_(options), coordinator_(coordinator) {}

  absl::Status Replay(const storage::LogRecord& record);
  absl::Status ReplayState();
  absl::Status AppendRecord(CoordinatorRecord kind, absl::string_view bytes);
  void SetStateDue();

  const CoordinatorLogOptions options_;
  // Used by Open alone.
  Coordinator* const coordinator_;
  std::string state_parts_;
  uint64_t state_parts_number_ = 0;
  uint64_t replayed_calls_ = 0;
  uint64_t calls_without_state_ = 0;
  bool replayed_ = false;

  // Set by Open.
  std::unique_ptr<storage::PushLog> log_;
  // The number of the last state. A record carries, as its cut, the number of
  // the state before it.
  std::atomic<uint64_t> state_number_ = 0;
  std::atomic<uint64_t> state_bytes_ = 0;
  // A state is due when the log is larger than this.
  std::atomic<uint64_t> state_due_at_ = 0;
};

}  // namespace oarlock::coordinator

#endif  // OARLOCK_COORDINATOR_LOG_COORDINATOR_LOG_H_
