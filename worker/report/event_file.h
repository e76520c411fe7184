// A file of events that TensorBoard shows (docs/evaluation.md).

#ifndef OARLOCK_WORKER_REPORT_EVENT_FILE_H_
#define OARLOCK_WORKER_REPORT_EVENT_FILE_H_

#include <cstdint>
#include <fstream>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/time/time.h"

namespace oarlock::worker {

// One record: length, its checksum, the bytes, theirs. Little-endian.
std::string FrameRecord(absl::string_view bytes);

// Not thread-safe.
class EventFile {
 public:
  // Points of curves at one step: tag and value.
  using Scalars = std::vector<std::pair<std::string, double>>;

  // Makes the folder, and in it a file of this process's own, to which nobody
  // else writes: events.out.tfevents.<Unix seconds>.<host>.<process>.<number>.
  // Unavailable names the path.
  static absl::StatusOr<std::unique_ptr<EventFile>> Create(
      const std::string& folder, absl::Time now);

  // Points that are not finite are left out. On the disk, for readers, when it
  // returns; not synced. Unavailable names the path.
  absl::Status Add(int64_t step, absl::Time time, const Scalars& scalars);

  const std::string& path() const { return path_; }

 private:
  explicit EventFile(std::string path) : path_(std::move(path)) {}
  absl::Status Write(absl::string_view event);

  const std::string path_;
  std::ofstream out_;
};

}  // namespace oarlock::worker

#endif  // OARLOCK_WORKER_REPORT_EVENT_FILE_H_
