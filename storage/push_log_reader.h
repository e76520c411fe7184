// Reads a push log: what is in it, where it ends, whether it is damaged.

#ifndef OARLOCK_STORAGE_PUSH_LOG_READER_H_
#define OARLOCK_STORAGE_PUSH_LOG_READER_H_

#include <cstdint>
#include <string>
#include <vector>

#include "absl/functional/function_ref.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "storage/file_system.h"

namespace oarlock::storage {

// As it was given to PushLog::Append.
struct LogRecord {
  uint32_t kind = 0;
  uint64_t cut = 0;
  // Valid until the visitor returns.
  absl::string_view bytes;
};

// An error ends the reading.
using LogVisitor = absl::FunctionRef<absl::Status(const LogRecord&)>;

struct LogSegment {
  uint64_t number = 0;
  // Up to the end of its last sound record.
  uint64_t bytes = 0;
  // The largest of its records' cuts.
  uint64_t max_cut = 0;
};

struct LogContents {
  // Ascending and without gaps.
  std::vector<LogSegment> segments;
  uint64_t num_records = 0;
  // What is behind the last sound record of the last segment: records that were
  // never written wholly, or never synced and gone with the system.
  uint64_t dropped_bytes = 0;
  // A segment that was being made when the process died; 0: none. Not among
  // `segments`; its bytes are among dropped_bytes.
  uint64_t unfinished_segment = 0;
};

// Visits all records in their order. Nothing to read where there is no folder
// or no segment in it; other files are left alone. DataLoss, naming file and
// offset, for damage and for a segment that is missing: the records before it
// have been visited. Else errors of the visitor, or of the files. Takes memory
// for one record, and for a whole segment where the last one is torn.
absl::StatusOr<LogContents> ReadPushLog(FileSystem* files,
                                        const std::string& directory,
                                        LogVisitor visit);

}  // namespace oarlock::storage

#endif  // OARLOCK_STORAGE_PUSH_LOG_READER_H_
