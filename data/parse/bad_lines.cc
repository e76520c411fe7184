#include "data/parse/bad_lines.h"

#include "absl/strings/str_cat.h"
#include "base/log.h"

namespace oarlock::data {

absl::Status BadLines::Add(std::string_view file, uint64_t line,
                           std::string_view reason, int64_t max) {
  absl::MutexLock lock(&mutex_);
  if (first_.empty()) {
    first_ = absl::StrCat(std::string(file), ":", line + 1, ": ",
                          std::string(reason));
    Log().warn("malformed line skipped, {}; further ones are only counted",
               first_);
  }
  if (++count_ <= max) return absl::OkStatus();
  return absl::InvalidArgumentError(
      absl::StrCat("too many malformed lines: ", count_, ", at most ", max,
                   " are allowed (--bad_lines_max); the first is ", first_));
}

void BadLines::LeaveOut(const std::string& file, const absl::Status& why) {
  absl::MutexLock lock(&mutex_);
  if (!left_out_.insert(file).second) return;
  Log().warn("what is left of file {} is left out: {}", file,
             std::string(why.message()));
}

void BadLines::StartPhase() {
  absl::MutexLock lock(&mutex_);
  count_ = 0;
}

int64_t BadLines::count() const {
  absl::MutexLock lock(&mutex_);
  return count_;
}

std::string BadLines::first() const {
  absl::MutexLock lock(&mutex_);
  return first_;
}

}  // namespace oarlock::data
