#include "cli/train/job_watch.h"

#include <unistd.h>

#include <cstdio>
#include <utility>

#include "fleet/role/progress_line.h"

namespace oarlock::cli {

JobWatch::JobWatch(Source source, int epochs, const Clock& clock)
    : clock_(clock) {
  if (isatty(STDOUT_FILENO) == 0) return;
  thread_ = std::thread(
      [this, source = std::move(source), epochs] { Run(source, epochs); });
}

JobWatch::~JobWatch() {
  closing_ = true;
  if (thread_.joinable()) thread_.join();
}

void JobWatch::Run(Source source, int epochs) {
  ProgressLine progress(epochs);
  bool drawn = false;
  while (!closing_) {
    const absl::StatusOr<v1::JobStatusResponse> status = source();
    if (status.ok()) {
      const std::string line = progress.Update(*status, clock_.Now());
      if (!line.empty()) {
        std::printf("\r\033[K%s", line.c_str());
        std::fflush(stdout);
        drawn = true;
      }
    }
    clock_.Sleep(kPeriod);
  }
  if (drawn) std::printf("\n");
}

}  // namespace oarlock::cli
