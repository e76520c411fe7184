// Columnar files on one worker: which there are, and how their row groups are
// read.

#ifndef OARLOCK_WORKER_INPUT_COLUMNAR_DATA_H_
#define OARLOCK_WORKER_INPUT_COLUMNAR_DATA_H_

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "base/clock.h"
#include "client/job_client.h"
#include "data/data_options.h"
#include "data/rows/file_rows.h"
#include "proto/config/job_config.pb.h"

namespace oarlock::worker {

// Immutable, so thread-safe.
class ColumnarData {
 public:
  // Worker 0 lists the files that match, checks their columns, and says to the
  // coordinator which they are and which features they have; others wait for
  // that. `name`, "train" or "test", is that of the input. `options` say what a
  // silent reader is asked. NotFound: a pattern matches nothing.
  // InvalidArgument names a file whose columns are not those of the features.
  // FailedPrecondition: nobody can read them here, or the job goes on with
  // other features.
  static absl::StatusOr<std::unique_ptr<ColumnarData>> Open(
      const v1::JobConfig& config, const std::vector<std::string>& patterns,
      const std::string& name, const data::DataOptions& options,
      client::JobClient* job, const Clock& clock);

  std::vector<std::string> paths() const;
  // Rows of each file.
  std::vector<uint64_t> counts() const;
  const data::RowSourceOptions& source() const { return *source_; }

 private:
  ColumnarData() = default;

  // Always there.
  std::optional<data::RowSourceOptions> source_;
};

// What is decoded at a time: whole row groups. Small ones that stand in a file
// together are one, of up to 65,536 rows, but so that there are some 64 of them
// where there are groups enough.
std::vector<data::DataRange> UnitsOf(const std::vector<v1::ListedFile>& files);

}  // namespace oarlock::worker

#endif  // OARLOCK_WORKER_INPUT_COLUMNAR_DATA_H_
