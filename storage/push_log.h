// A server's push log: what it was told, written down before it is done and
// answered. Bytes: storage/push_log_format.h.
//
// A record says the number of the cut that it belongs after. What belongs
// before a published cut is never read again, so a segment goes when the cuts
// of all its records are below that. Roll when a cut opens: from then on
// records of the new cut appear, and what the segments before hold goes with
// it.

#ifndef OARLOCK_STORAGE_PUSH_LOG_H_
#define OARLOCK_STORAGE_PUSH_LOG_H_

#include <cstdint>
#include <memory>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/time/time.h"
#include "absl/types/span.h"
#include "base/clock.h"
#include "storage/file_system.h"
#include "storage/push_log_reader.h"

namespace oarlock::storage {

struct PushLogOptions {
  static constexpr uint64_t kMinSegmentBytes = uint64_t{4} << 10;
  static constexpr uint64_t kMaxSegmentBytes = uint64_t{2} << 30;

  // Its own; made when it is not there.
  std::string directory;
  // A segment that has grown beyond it is followed by the next one.
  uint64_t segment_bytes = uint64_t{64} << 20;
  // How long a record may be with the system alone. 0: every Append waits until
  // its record is on disk. Infinite: only Sync, Roll and the end sync.
  absl::Duration sync_interval = absl::Milliseconds(100);

  // InvalidArgument.
  absl::Status Validate() const;
};

// Thread-safe. Records of appenders that wait at the same time are written
// together, by one of them; a sync in the background holds nobody up. A thread
// of its own syncs and makes segments.
//
// Invariants:
// 1. What Append said OK to is in the log as long as the system lives, and once
//    synced for good, until Trim. Records of one thread lie in its order.
// 2. What a crash leaves is all records up to one, and no record behind it.
// 3. A record that could not be written wholly is not in the log: the file is
//    cut back before the next one is written.
class PushLog {
 public:
  // Visits what the log has (see ReadPushLog for `visit` and errors), cuts off
  // a torn end, and goes on behind it in a new segment. By `clock`, which is
  // monotonic, it syncs. `files` and `clock` outlive it.
  static absl::StatusOr<std::unique_ptr<PushLog>> Open(
      const PushLogOptions& options, FileSystem* files, const Clock& clock,
      LogVisitor visit);
  // Syncs and closes. No call may be under way.
  virtual ~PushLog() = default;

  // Writes one record, the slices one after the other; returns when it has
  // reached the system (or the disk, see sync_interval). After an error it is
  // not in the log. ResourceExhausted when the disk is full: again when there
  // is space. DataLoss after a sync that failed, for ever: the
  // system may have thrown away what it could not write and calls the next sync
  // a success, so what this log promised can no longer be kept. Internal for
  // other failures of the file.
  // REQUIRES: kind is not 0; slices together at most kMaxLogRecordBytes.
  virtual absl::Status Append(uint32_t kind, uint64_t cut,
                              absl::Span<const absl::string_view> slices) = 0;

  // All records appended before the call are on disk. Errors as Append.
  virtual absl::Status Sync() = 0;
  // What is appended after the call lies in another segment than what was
  // appended before. Holds appenders up for one small sync. After an error,
  // other than DataLoss, the log goes on in the old segment.
  virtual absl::Status Roll() = 0;
  // Removes the segments, from the oldest on, all of whose records have cuts
  // below `cut`. The one that is written to stays.
  virtual absl::Status Trim(uint64_t cut) = 0;

  // Size of all segments. How large is too large is the owner's to say.
  virtual uint64_t bytes() const = 0;
  // What Open found.
  virtual const LogContents& found() const = 0;
};

}  // namespace oarlock::storage

#endif  // OARLOCK_STORAGE_PUSH_LOG_H_
