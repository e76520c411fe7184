// Counts the malformed lines that readers skip, ends a phase that has too many,
// and logs which files were skipped.

#ifndef OARLOCK_DATA_PARSE_BAD_LINES_H_
#define OARLOCK_DATA_PARSE_BAD_LINES_H_

#include <cstdint>
#include <set>
#include <string>
#include <string_view>

#include "absl/base/thread_annotations.h"
#include "absl/status/status.h"
#include "absl/synchronization/mutex.h"

namespace oarlock::data {

// Thread-safe: the readers of a process share one.
class BadLines {
 public:
  // Counts line number `line` (0-based; 1-based in messages) of `file`. The
  // first malformed line of all phases is kept and logged as a warning.
  // InvalidArgument, with the place and the reason of that line, when the phase
  // has had more than `max` malformed lines.
  absl::Status Add(std::string_view file, uint64_t line,
                   std::string_view reason, int64_t max);

  // Logs, once per file, that the rest of `file` is skipped because it cannot
  // be read.
  void LeaveOut(const std::string& file, const absl::Status& why);

  // Sets the count to 0. The first malformed line is kept and not logged again.
  void StartPhase();

  // Number of malformed lines of this phase.
  int64_t count() const;
  // "file:line: reason" of the first malformed line; empty when there was no
  // such line.
  std::string first() const;

 private:
  mutable absl::Mutex mutex_;
  int64_t count_ ABSL_GUARDED_BY(mutex_) = 0;
  std::string first_ ABSL_GUARDED_BY(mutex_);
  std::set<std::string> left_out_ ABSL_GUARDED_BY(mutex_);
};

}  // namespace oarlock::data

#endif  // OARLOCK_DATA_PARSE_BAD_LINES_H_
