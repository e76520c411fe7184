#include "coordinator/log/coordinator_log.h"

#include <algorithm>
#include <limits>
#include <utility>

#include "absl/cleanup/cleanup.h"
#include "absl/memory/memory.h"
#include "absl/strings/str_cat.h"
#include "base/check.h"
#include "base/log.h"
#include "base/status_macros.h"
#include "storage/push_log_format.h"

namespace oarlock::coordinator {
namespace {

// States, not the size of the log, trim the log. A state is due when the calls
// since the last one take this many times its bytes.
constexpr uint64_t kCallsPerState = 4;

}  // namespace

absl::StatusOr<std::unique_ptr<CoordinatorLog>> CoordinatorLog::Open(
    const CoordinatorLogOptions& options, storage::FileSystem* files,
    Coordinator* coordinator, const Clock& clock) {
  OARLOCK_CHECK(options.record_bytes >= 1 &&
                options.record_bytes <= storage::kMaxLogRecordBytes);
  if (!options.replay) {
    OARLOCK_RETURN_IF_ERROR(files->RemoveTree(options.directory));
  }
  auto log = absl::WrapUnique(new CoordinatorLog(options, coordinator));
  storage::PushLogOptions push_log;
  push_log.directory = options.directory;
  // The log is read under the same boot only, and until the next boot the
  // system has all of it. So it need not be synced at intervals.
  push_log.sync_interval = absl::InfiniteDuration();
  const absl::Time start = clock.Now();
  {
    // What the coordinator logs during the replay, it has logged before.
    const spdlog::level::level_enum level = Log().level();
    Log().set_level(spdlog::level::off);
    const absl::Cleanup speak_again = [level] { Log().set_level(level); };
    OARLOCK_ASSIGN_OR_RETURN(
        log->log_,
        storage::PushLog::Open(push_log, files, clock,
                               [&](const storage::LogRecord& record) {
                                 return log->Replay(record);
                               }));
  }
  if (log->calls_without_state_ > 0 && !log->replayed_) {
    return absl::DataLossError(absl::StrCat(
        options.directory, " has ", log->calls_without_state_,
        " calls and no state that they follow; start all processes of the job "
        "again with --resume"));
  }
  if (log->replayed_ && !options.any_num_workers) {
    OARLOCK_RETURN_IF_ERROR(coordinator->CheckNumWorkers());
  }
  for (const storage::LogSegment& segment : log->log_->found().segments) {
    log->state_number_ = std::max(log->state_number_.load(), segment.max_cut);
  }
  log->SetStateDue();
  if (log->replayed_) {
    Log().info("replayed {} calls of the coordinator's log in {:.2f} s",
               log->replayed_calls_,
               absl::ToDoubleSeconds(clock.Now() - start));
  }
  return log;
}

absl::Status CoordinatorLog::Replay(const storage::LogRecord& record) {
  // Drops the parts of a state that was not written to its end.
  if (record.cut != state_parts_number_) state_parts_.clear();
  state_parts_number_ = record.cut;
  switch (static_cast<CoordinatorRecord>(record.kind)) {
    case CoordinatorRecord::kStatePart:
      absl::StrAppend(&state_parts_, record.bytes);
      return absl::OkStatus();
    case CoordinatorRecord::kStateEnd:
      absl::StrAppend(&state_parts_, record.bytes);
      return ReplayState();
    case CoordinatorRecord::kCall: {
      v1::CoordinatorCall call;
      if (!call.ParseFromArray(record.bytes.data(),
                               static_cast<int>(record.bytes.size()))) {
        break;
      }
      // The call was made while the next state was about to be written, and
      // that state includes it. The state before was removed with its segment.
      if (!replayed_) {
        ++calls_without_state_;
        return absl::OkStatus();
      }
      coordinator_->Replay(call);
      ++replayed_calls_;
      return absl::OkStatus();
    }
  }
  return absl::DataLossError(absl::StrCat(
      options_.directory, " has a record of kind ", record.kind, " and ",
      record.bytes.size(),
      " bytes that is none of a coordinator's; start all processes of the job "
      "again with --resume"));
}

absl::Status CoordinatorLog::ReplayState() {
  const std::string bytes = std::exchange(state_parts_, std::string());
  v1::CoordinatorSnapshot snapshot;
  if (!snapshot.ParseFromString(bytes)) {
    return absl::DataLossError(absl::StrCat(
        options_.directory, " has a state of ", bytes.size(),
        " bytes that "
        "cannot be read; start all processes of the job again with --resume"));
  }
  if (snapshot.boot_id() != options_.boot_id) {
    return absl::FailedPreconditionError(absl::StrCat(
        options_.directory, " was written under another boot of the system ('",
        snapshot.boot_id(), "', now '", options_.boot_id,
        "'), so its end may "
        "be missing; start all processes of the job again with --resume"));
  }
  OARLOCK_RETURN_IF_ERROR(coordinator_->Load(snapshot.state()));
  replayed_ = true;
  replayed_calls_ = 0;
  state_bytes_ = bytes.size();
  return absl::OkStatus();
}

absl::Status CoordinatorLog::AppendRecord(CoordinatorRecord kind,
                                          absl::string_view bytes) {
  if (bytes.size() > storage::kMaxLogRecordBytes) {
    return absl::InvalidArgumentError(absl::StrCat(
        "a call to the coordinator has ", bytes.size(), " bytes; legal are ",
        storage::kMaxLogRecordBytes, "; make it smaller"));
  }
  return log_->Append(static_cast<uint32_t>(kind), state_number_.load(),
                      {&bytes, 1});
}

absl::Status CoordinatorLog::Append(const v1::CoordinatorCall& call) {
  if (options_.run_file != nullptr) {
    OARLOCK_RETURN_IF_ERROR(options_.run_file->RecordCall(call));
  }
  return AppendRecord(CoordinatorRecord::kCall, call.SerializeAsString());
}

absl::Status CoordinatorLog::AppendState(v1::CoordinatorState state) {
  v1::CoordinatorSnapshot snapshot;
  snapshot.set_boot_id(options_.boot_id);
  *snapshot.mutable_state() = std::move(state);
  // After a failure the next try comes when more has been written.
  const absl::Cleanup due = [this] { SetStateDue(); };
  if (snapshot.ByteSizeLong() >
      static_cast<size_t>(std::numeric_limits<int32_t>::max())) {
    return absl::ResourceExhaustedError(absl::StrCat(
        "the coordinator's state has ", snapshot.ByteSizeLong(),
        " bytes; its log goes on growing; make the ranges of a phase longer"));
  }
  const std::string bytes = snapshot.SerializeAsString();
  // A state that failed keeps its number, since parts of it may be in the log.
  ++state_number_;
  absl::string_view rest = bytes;
  while (rest.size() > options_.record_bytes) {
    OARLOCK_RETURN_IF_ERROR(AppendRecord(
        CoordinatorRecord::kStatePart, rest.substr(0, options_.record_bytes)));
    rest.remove_prefix(options_.record_bytes);
  }
  OARLOCK_RETURN_IF_ERROR(AppendRecord(CoordinatorRecord::kStateEnd, rest));
  state_bytes_ = bytes.size();
  return absl::OkStatus();
}

absl::Status CoordinatorLog::EndState() {
  OARLOCK_RETURN_IF_ERROR(log_->Sync());
  OARLOCK_RETURN_IF_ERROR(log_->Trim(state_number_.load()));
  SetStateDue();
  return absl::OkStatus();
}

void CoordinatorLog::SetStateDue() {
  state_due_at_ =
      log_->bytes() +
      std::max(options_.calls_bytes_max, kCallsPerState * state_bytes_.load());
}

}  // namespace oarlock::coordinator
