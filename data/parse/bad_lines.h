// Counts the malformed lines that readers skip, ends a phase that has too many,
// and tells which files were left out.

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
  // Counts line number `line` (0-based; messages say it 1-based) of `file`.
  // The first one ever is kept and logged as a warning. InvalidArgument, with
  // the first one's place and reason, when the phase has had more than `max`.
  absl::Status Add(std::string_view file, uint64_t line,
                   std::string_view reason, int64_t max);

  // What is left of `file` cannot be read and is left out; logged once a file.
  void LeaveOut(const std::string& file, const absl::Status& why);

  // The count starts at 0 again; the first bad line stays, and is not logged
  // again.
  void StartPhase();

  // Malformed lines of this phase.
  int64_t count() const;
  // "file:line: reason", empty when there was none.
  std::string first() const;

 private:
  mutable absl::Mutex mutex_;
  int64_t count_ ABSL_GUARDED_BY(mutex_) = 0;
  std::string first_ ABSL_GUARDED_BY(mutex_);
  std::set<std::string> left_out_ ABSL_GUARDED_BY(mutex_);
};

}  // namespace oarlock::data

#endif  // OARLOCK_DATA_PARSE_BAD_LINES_H_
